//! What clients say when they connect, and to see whether anybody is there.

use super::{NOT_AN_INTEGER, wrong_arity};
use crate::engine::Engine;
use crate::observe::WhyRefused;
use crate::resp::parser::{Arguments, parse_integer};
use crate::resp::reply::{Protocol, Reply};
use crate::resp::session::Session;

/// The Redis whose dialect this is. Clients read it to know what they may send.
pub(super) const DIALECT: &str = "7.0.0";

/// The only user there is. Redis lets every client be it while no password is set.
const DEFAULT_USER: &[u8] = b"default";

const WRONG_USER: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) fn ping(arguments: Arguments<'_>, reply: &mut Reply<'_>) {
    match (arguments.len(), arguments.get(1)) {
        (1, _) => reply.simple("PONG"),
        (2, Some(told)) => reply.bulk(told),
        _ => reply.error(wrong_arity("PING")),
    }
}

/// `AUTH [user] password`
pub(super) fn auth(engine: &Engine, session: &mut Session, arguments: Arguments<'_>, reply: &mut Reply<'_>) {
    if session.gate.is_some() {
        return match (arguments.len(), arguments.get(1), arguments.get(2)) {
            (2, Some(password), _) => answer_auth(engine, session, DEFAULT_USER, password, reply),
            (3, Some(user), Some(password)) => answer_auth(engine, session, user, password, reply),
            _ => reply.error(super::SYNTAX_ERROR),
        };
    }
    match (arguments.len(), arguments.get(1)) {
        (2, _) => reply.error(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ),
        (3, Some(DEFAULT_USER)) => reply.simple("OK"),
        (3, _) => reply.error(WRONG_USER),
        _ => reply.error(super::SYNTAX_ERROR),
    }
}

fn answer_auth(engine: &Engine, session: &mut Session, user: &[u8], password: &[u8], reply: &mut Reply<'_>) {
    if is_admitted(engine, session, user, password) {
        session.is_admitted = true;
        reply.simple("OK");
    } else {
        reply.error(WRONG_USER);
    }
}

/// Whether a password opens the gate. One that does not leaves a client as it was, as in Redis.
fn is_admitted(engine: &Engine, session: &Session, user: &[u8], password: &[u8]) -> bool {
    let Some(gate) = &session.gate else { return user == DEFAULT_USER };
    let is_right = gate.token.is(password) && user == DEFAULT_USER;
    if !is_right {
        gate.note(engine, WhyRefused::WrongToken);
    }
    is_right
}

pub(super) fn select(arguments: Arguments<'_>, reply: &mut Reply<'_>) {
    match arguments.get(1).and_then(parse_integer) {
        Some(0) => reply.simple("OK"),
        Some(_) => reply.error("ERR DB index is out of range"),
        None => reply.error(NOT_AN_INTEGER),
    }
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub(super) fn hello(engine: &Engine, session: &mut Session, arguments: Arguments<'_>, reply: &mut Reply<'_>) {
    match asked(engine, session, arguments) {
        Ok(asked) if !(session.is_admitted || asked.is_admitted) => {
            session.gate.iter().for_each(|gate| gate.note(engine, WhyRefused::NoToken));
            reply.error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
                 AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
                 version at the same time",
            );
        }
        Ok(asked) => {
            session.is_admitted = true;
            session.protocol = asked.protocol;
            if let Some(name) = asked.name {
                session.name = name.to_vec();
            }
            reply.protocol = asked.protocol;
            introduce(session, reply);
        }
        Err(error) => reply.error(error),
    }
}

/// What a client asks for. Nothing of it holds unless all of it can.
struct Asked<'a> {
    protocol: Protocol,
    name: Option<&'a [u8]>,
    is_admitted: bool,
}

fn asked<'a>(engine: &Engine, session: &Session, arguments: Arguments<'a>) -> Result<Asked<'a>, Vec<u8>> {
    let protocol = match arguments.get(1) {
        None => session.protocol,
        Some(version) => match parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(b"NOPROTO unsupported protocol version".to_vec()),
            None => return Err(b"ERR Protocol version is not an integer or out of range".to_vec()),
        },
    };
    let mut asked = Asked { protocol, name: None, is_admitted: false };
    let mut options = arguments.from(2);
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"AUTH")
            && let (Some(user), Some(password)) = (options.next(), options.next())
        {
            if !is_admitted(engine, session, user, password) {
                return Err(WRONG_USER.into());
            }
            asked.is_admitted = true;
        } else if option.eq_ignore_ascii_case(b"SETNAME")
            && let Some(name) = options.next()
        {
            if !is_client_name(name) {
                return Err(BAD_CLIENT_NAME.into());
            }
            asked.name = Some(name);
        } else {
            return Err(
                [b"ERR Syntax error in HELLO option '", super::start_of(option, super::QUOTED_BYTES), b"'"].concat()
            );
        }
    }
    Ok(asked)
}

fn introduce(session: &Session, reply: &mut Reply<'_>) {
    reply.map(7);
    reply.bulk("server");
    reply.bulk("redis");
    reply.bulk("version");
    reply.bulk(DIALECT);
    reply.bulk("proto");
    reply.integer(session.protocol.version());
    reply.bulk("id");
    reply.count(session.id);
    reply.bulk("mode");
    reply.bulk("standalone");
    reply.bulk("role");
    reply.bulk("master");
    reply.bulk("modules");
    reply.array(0);
}

pub(super) const BAD_CLIENT_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

/// Whether a list of clients stays one client a line, one word a name.
pub(super) fn is_client_name(name: &[u8]) -> bool {
    name.iter().all(|byte| matches!(byte, b'!'..=b'~'))
}
