//! `CLIENT`: information about this connection only.

use super::connection::{BAD_CLIENT_NAME, is_client_name};
use super::{SYNTAX_ERROR, help, unknown_subcommand, wrong_arity};
use crate::resp::parser::RespArguments;
use crate::resp::reply::RespReply;
use crate::resp::session::Session;

/// The subcommands with their number of arguments, both names included.
const SUBCOMMANDS: [(&str, usize); 8] =
    [("setinfo", 4), ("setname", 3), ("getname", 2), ("id", 2), ("list", 2), ("info", 2), ("no-evict", 3), ("help", 2)];

const HELP: [&str; 9] = [
    "CLIENT <subcommand> [<argument> ...]. Subcommands are:",
    "GETNAME: the name of this connection.",
    "HELP: this text.",
    "ID: the number of this connection.",
    "INFO: information about this connection.",
    "LIST: the same; other connections are not listed.",
    "NO-EVICT (ON|OFF): is accepted and ignored.",
    "SETINFO (LIB-NAME|LIB-VER) <value>: is accepted and ignored.",
    "SETNAME <name>: gives this connection a name.",
];

pub(super) fn client(session: &mut Session, arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
    let name = arguments.get(1).unwrap_or_default();
    let Some((subcommand, arity)) =
        SUBCOMMANDS.into_iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
    else {
        return reply.error(unknown_subcommand("CLIENT", name));
    };
    if arguments.len() != arity {
        return reply.error(wrong_arity(&format!("client|{subcommand}")));
    }
    let value = arguments.get(2).unwrap_or_default();
    match subcommand {
        "setinfo" => set_info(value, arguments.get(3).unwrap_or_default(), reply),
        "setname" if is_client_name(value) => {
            session.name = value.to_vec();
            reply.simple("OK");
        }
        "setname" => reply.error(BAD_CLIENT_NAME),
        "getname" if session.name.is_empty() => reply.null(),
        "getname" => reply.bulk(&session.name),
        "id" => reply.count(session.id),
        "help" => help(&HELP, reply),
        "list" | "info" => reply.text(&line(session)),
        // Clients are never evicted, so both values are accepted.
        _ if value.eq_ignore_ascii_case(b"on") || value.eq_ignore_ascii_case(b"off") => reply.simple("OK"),
        _ => reply.error(SYNTAX_ERROR),
    }
}

/// Accepts the library name and version, which clients send, and ignores them.
fn set_info(attribute: &[u8], value: &[u8], reply: &mut RespReply<'_>) {
    let attribute = attribute.to_ascii_lowercase();
    if attribute != b"lib-name" && attribute != b"lib-ver" {
        let quoted = super::start_of(&attribute, super::QUOTED_BYTES);
        return reply.error([b"ERR Unrecognized option '", quoted, b"'"].concat());
    }
    if !is_client_name(value) {
        let quoted = String::from_utf8_lossy(&attribute);
        return reply.error(format!("ERR {quoted} cannot contain spaces, newlines or special characters."));
    }
    reply.simple("OK");
}

fn line(session: &Session) -> String {
    let name = String::from_utf8_lossy(&session.name);
    format!("id={} name={name} db=0 resp={}\n", session.id, session.protocol.version())
}
