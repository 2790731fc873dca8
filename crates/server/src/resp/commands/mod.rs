//! What each command does, and how it is found.

mod check;
mod client;
mod command;
mod connection;
mod info;
mod table;
mod throttle;

use super::parser::Arguments;
use super::reply::Reply;
use super::session::Session;
use crate::engine::Engine;
use crate::observe::WhyRefused;
use table::{COMMANDS, Command, Name};

pub(super) use check::check;
pub(super) use throttle::{QuotaMemo, throttle_again, throttle_shared};

/// As much of a client's words as an error quotes.
const QUOTED_BYTES: usize = 128;

/// What is left to do for a command.
#[must_use]
pub(super) enum Left {
    Nothing,
    /// To ask for a decision, which may take its time: see [`check`].
    Check,
    /// To ask a shared store about a limit that the caller brings along: see [`throttle_shared`].
    Throttle,
}

/// Answers one command, unless that has to be waited for.
///
/// No future is made for what is answered at once: beside a decision in memory
/// even that would show.
pub(super) fn answer(engine: &Engine, session: &mut Session, arguments: Arguments<'_>, out: &mut Vec<u8>) -> Left {
    let name = arguments.get(0).unwrap_or_default();
    let mut reply = Reply::new(out, session.protocol);
    let Some(command) = find(name) else {
        // A browser can be made to send a command in the body of a request. Nothing after its head is read.
        if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:") {
            session.is_over = true;
            return Left::Nothing;
        }
        reply.error(unknown_command(name, arguments));
        return Left::Nothing;
    };
    if !command.takes(arguments.len()) {
        reply.error(wrong_arity(command.name));
        return Left::Nothing;
    }
    if !session.is_admitted && !matches!(command.which, Name::Auth | Name::Hello | Name::Quit | Name::Reset) {
        session.gate.iter().for_each(|gate| gate.note(engine, WhyRefused::NoToken));
        reply.error(NO_AUTH);
        return Left::Nothing;
    }
    match command.which {
        Name::Throttle => return throttle::throttle(engine, session, arguments, &mut reply),
        Name::Check => return Left::Check,
        Name::Ping => connection::ping(arguments, &mut reply),
        Name::Echo => reply.bulk(arguments.get(1).unwrap_or_default()),
        Name::Hello => connection::hello(engine, session, arguments, &mut reply),
        Name::Auth => connection::auth(engine, session, arguments, &mut reply),
        Name::Select => connection::select(arguments, &mut reply),
        Name::Client => client::client(session, arguments, &mut reply),
        Name::Command => command::command(arguments, &mut reply),
        Name::Info => info::info(arguments, &mut reply),
        Name::Quit => {
            session.is_over = true;
            reply.simple("OK");
        }
        Name::Reset => {
            session.reset();
            reply.simple("RESET");
        }
    }
    Left::Nothing
}

/// Nearly everybody sends the busiest command, as it is written here, which is seen sooner.
#[inline]
fn find(name: &[u8]) -> Option<&'static Command> {
    const BUSIEST: &Command = &COMMANDS[0];
    if name == BUSIEST.name.as_bytes() {
        return Some(BUSIEST);
    }
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

fn unknown_command(name: &[u8], arguments: Arguments<'_>) -> Vec<u8> {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(start_of(name, QUOTED_BYTES));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut room = QUOTED_BYTES;
    for argument in arguments.from(1) {
        if room == 0 {
            break;
        }
        let quoted = start_of(argument, room);
        text.push(b'\'');
        text.extend_from_slice(quoted);
        text.extend_from_slice(b"' ");
        room = room.saturating_sub(quoted.len() + 3);
    }
    text
}

fn wrong_arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{}' command", name.to_ascii_lowercase())
}

/// Lines for somebody at a keyboard, as Redis sends them.
fn help(lines: &[&str], reply: &mut Reply<'_>) {
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
}

/// The answer to the first word after a command that has several meanings.
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

fn start_of(bytes: &[u8], most: usize) -> &[u8] {
    &bytes[..bytes.len().min(most)]
}
