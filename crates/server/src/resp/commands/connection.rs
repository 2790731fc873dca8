//! Commands that clients send when they connect, and `PING`.

use super::{NOT_AN_INTEGER, wrong_arity};
use crate::engine::Engine;
use crate::observe::CallRefusal;
use crate::resp::parser::{RespArguments, parse_integer};
use crate::resp::reply::{Protocol, RespReply};
use crate::resp::session::Session;

/// The reported Redis version. Clients read it to know what they may send.
pub(super) const REDIS_VERSION: &str = "7.0.0";

/// The only user. Redis authenticates every client as it while no password is set.
const DEFAULT_USER: &[u8] = b"default";

const WRONG_USER: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) fn ping(arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
    match (arguments.len(), arguments.get(1)) {
        (1, _) => reply.simple("PONG"),
        (2, Some(fields)) => reply.bulk(fields),
        _ => reply.error(wrong_arity("PING")),
    }
}

/// `AUTH [user] password`
pub(super) fn auth(engine: &Engine, session: &mut Session, arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
    if session.auth.is_some() {
        return match (arguments.len(), arguments.get(1), arguments.get(2)) {
            (2, Some(password), _) => authenticate(engine, session, DEFAULT_USER, password, reply),
            (3, Some(user), Some(password)) => authenticate(engine, session, user, password, reply),
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

fn authenticate(engine: &Engine, session: &mut Session, user: &[u8], password: &[u8], reply: &mut RespReply<'_>) {
    if is_authenticated(engine, session, user, password) {
        session.is_authenticated = true;
        reply.simple("OK");
    } else {
        reply.error(WRONG_USER);
    }
}

/// Returns whether a password is valid. An invalid one does not change the state of the client, as in Redis.
fn is_authenticated(engine: &Engine, session: &Session, user: &[u8], password: &[u8]) -> bool {
    let Some(auth) = &session.auth else { return user == DEFAULT_USER };
    let is_valid = auth.token.matches(password) && user == DEFAULT_USER;
    if !is_valid {
        auth.note(engine, CallRefusal::WrongToken);
    }
    is_valid
}

pub(super) fn select(arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
    match arguments.get(1).and_then(parse_integer) {
        Some(0) => reply.simple("OK"),
        Some(_) => reply.error("ERR DB index is out of range"),
        None => reply.error(NOT_AN_INTEGER),
    }
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub(super) fn hello(engine: &Engine, session: &mut Session, arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
    match hello_options(engine, session, arguments) {
        Ok(options) if !(session.is_authenticated || options.is_authenticated) => {
            session.auth.iter().for_each(|auth| auth.note(engine, CallRefusal::NoToken));
            reply.error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> \
                 AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
                 version at the same time",
            );
        }
        Ok(options) => {
            session.is_authenticated = true;
            session.protocol = options.protocol;
            if let Some(name) = options.name {
                session.name = name.to_vec();
            }
            reply.protocol = options.protocol;
            write_server_info(session, reply);
        }
        Err(error) => reply.error(error),
    }
}

/// The options of `HELLO`. They apply only if all are valid.
struct HelloOptions<'a> {
    protocol: Protocol,
    name: Option<&'a [u8]>,
    is_authenticated: bool,
}

fn hello_options<'a>(
    engine: &Engine,
    session: &Session,
    arguments: RespArguments<'a>,
) -> Result<HelloOptions<'a>, Vec<u8>> {
    let protocol = match arguments.get(1) {
        None => session.protocol,
        Some(version) => match parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(b"NOPROTO unsupported protocol version".to_vec()),
            None => return Err(b"ERR Protocol version is not an integer or out of range".to_vec()),
        },
    };
    let mut parsed = HelloOptions { protocol, name: None, is_authenticated: false };
    let mut options = arguments.from(2);
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"AUTH")
            && let (Some(user), Some(password)) = (options.next(), options.next())
        {
            if !is_authenticated(engine, session, user, password) {
                return Err(WRONG_USER.into());
            }
            parsed.is_authenticated = true;
        } else if option.eq_ignore_ascii_case(b"SETNAME")
            && let Some(name) = options.next()
        {
            if !is_client_name(name) {
                return Err(BAD_CLIENT_NAME.into());
            }
            parsed.name = Some(name);
        } else {
            return Err(
                [b"ERR Syntax error in HELLO option '", super::start_of(option, super::QUOTED_BYTES), b"'"].concat()
            );
        }
    }
    Ok(parsed)
}

fn write_server_info(session: &Session, reply: &mut RespReply<'_>) {
    reply.map(7);
    reply.bulk("server");
    reply.bulk("redis");
    reply.bulk("version");
    reply.bulk(REDIS_VERSION);
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

/// Returns whether a client name is printable and has no spaces.
pub(super) fn is_client_name(name: &[u8]) -> bool {
    name.iter().all(|byte| matches!(byte, b'!'..=b'~'))
}
