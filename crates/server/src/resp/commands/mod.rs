//! The commands, and their lookup.

mod check;
mod client;
mod command;
mod connection;
mod info;
mod table;
mod throttle;

use super::parser::RespArguments;
use super::reply::RespReply;
use super::session::Session;
use crate::engine::Engine;
use crate::observe::CallRefusal;
use table::{COMMANDS, CommandName, CommandSpec};

pub(super) use check::check;
pub(super) use throttle::{QuotaMemo, throttle_repeated, throttle_shared};

/// The maximum number of input bytes that an error quotes.
const QUOTED_BYTES: usize = 128;

/// The rest of a command that has to wait.
#[must_use]
pub(super) enum Deferred {
    Nothing,
    /// A decision under the policy: see [`check`].
    Check,
    /// A caller-supplied limit in a shared store: see [`throttle_shared`].
    Throttle,
}

/// Executes one command, unless it has to wait.
///
/// Commands executed at once create no future: compared with a decision in memory that is measurable.
pub(super) fn execute(
    engine: &Engine,
    session: &mut Session,
    arguments: RespArguments<'_>,
    out: &mut Vec<u8>,
) -> Deferred {
    let name = arguments.get(0).unwrap_or_default();
    let mut reply = RespReply::new(out, session.protocol);
    let Some(command) = find(name) else {
        // A browser can be made to send a command in the body of a request. Nothing after its headers is read.
        if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:") {
            session.is_ending = true;
            return Deferred::Nothing;
        }
        reply.error(unknown_command(name, arguments));
        return Deferred::Nothing;
    };
    if !command.takes(arguments.len()) {
        reply.error(wrong_arity(command.name));
        return Deferred::Nothing;
    }
    if !session.is_authenticated
        && !matches!(command.which, CommandName::Auth | CommandName::Hello | CommandName::Quit | CommandName::Reset)
    {
        session.auth.iter().for_each(|auth| auth.note(engine, CallRefusal::NoToken));
        reply.error(NO_AUTH);
        return Deferred::Nothing;
    }
    match command.which {
        CommandName::Throttle => return throttle::throttle(engine, session, arguments, &mut reply),
        CommandName::Check => return Deferred::Check,
        CommandName::Ping => connection::ping(arguments, &mut reply),
        CommandName::Echo => reply.bulk(arguments.get(1).unwrap_or_default()),
        CommandName::Hello => connection::hello(engine, session, arguments, &mut reply),
        CommandName::Auth => connection::auth(engine, session, arguments, &mut reply),
        CommandName::Select => connection::select(arguments, &mut reply),
        CommandName::Client => client::client(session, arguments, &mut reply),
        CommandName::Command => command::command(arguments, &mut reply),
        CommandName::Info => info::info(arguments, &mut reply),
        CommandName::Quit => {
            session.is_ending = true;
            reply.simple("OK");
        }
        CommandName::Reset => {
            session.reset();
            reply.simple("RESET");
        }
    }
    Deferred::Nothing
}

/// Finds a command. The busiest one, in its usual spelling, is compared first.
#[inline]
fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    const BUSIEST: &CommandSpec = &COMMANDS[0];
    if name == BUSIEST.name.as_bytes() {
        return Some(BUSIEST);
    }
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

fn unknown_command(name: &[u8], arguments: RespArguments<'_>) -> Vec<u8> {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(start_of(name, QUOTED_BYTES));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut left = QUOTED_BYTES;
    for argument in arguments.from(1) {
        if left == 0 {
            break;
        }
        let quoted = start_of(argument, left);
        text.push(b'\'');
        text.extend_from_slice(quoted);
        text.extend_from_slice(b"' ");
        left = left.saturating_sub(quoted.len() + 3);
    }
    text
}

fn wrong_arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{}' command", name.to_ascii_lowercase())
}

/// Writes help lines, as Redis does.
fn help(lines: &[&str], reply: &mut RespReply<'_>) {
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
}

/// Formats the error of an unknown subcommand.
fn unknown_subcommand(name: &str, subcommand: &[u8]) -> Vec<u8> {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(start_of(subcommand, QUOTED_BYTES));
    text.extend_from_slice(b"'. Try ");
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b" HELP.");
    text
}

const NO_AUTH: &str = "NOAUTH Authentication required.";

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

const SYNTAX_ERROR: &str = "ERR syntax error";

fn start_of(bytes: &[u8], max: usize) -> &[u8] {
    &bytes[..bytes.len().min(max)]
}
