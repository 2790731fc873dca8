//! `COMMAND`: which commands there are, for clients that ask.

use super::table::{COMMANDS, Command};
use super::{SYNTAX_ERROR, help, unknown_subcommand, wrong_arity};
use crate::resp::parser::Arguments;
use crate::resp::reply::Reply;

const HELP: [&str; 7] = [
    "COMMAND <subcommand> [<argument> ...]. Subcommands are:",
    "(none): a description of every command.",
    "COUNT: how many commands there are.",
    "DOCS [<command> ...]: what commands are for.",
    "HELP: this.",
    "INFO [<command> ...]: descriptions of commands.",
    "LIST: their names.",
];

pub(super) fn command(arguments: Arguments<'_>, reply: &mut Reply<'_>) {
    let Some(asked) = arguments.get(1) else {
        reply.array(COMMANDS.len());
        return COMMANDS.iter().for_each(|command| describe(command, reply));
    };
    match asked.to_ascii_lowercase().as_slice() {
        b"count" if arguments.len() > 2 => reply.error(wrong_arity("command|count")),
        b"count" => reply.count(COMMANDS.len() as u64),
        b"list" if arguments.len() > 2 => reply.error(SYNTAX_ERROR),
        b"list" => {
            reply.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| reply.bulk(command.name.to_ascii_lowercase()));
        }
        b"help" if arguments.len() > 2 => reply.error(wrong_arity("command|help")),
        b"help" => help(&HELP, reply),
        b"info" => info(arguments, reply),
        b"docs" => documents(arguments, reply),
        _ => reply.error(unknown_subcommand("COMMAND", asked)),
    }
}

/// Descriptions of those that are named, else of all.
fn info(arguments: Arguments<'_>, reply: &mut Reply<'_>) {
    if arguments.len() == 2 {
        reply.array(COMMANDS.len());
        return COMMANDS.iter().for_each(|command| describe(command, reply));
    }
    reply.array(arguments.len() - 2);
    for name in arguments.from(2) {
        match named(name) {
            Some(command) => describe(command, reply),
            None => reply.null(),
        }
    }
}

/// Documents of those that are named and known, else of all.
fn documents(arguments: Arguments<'_>, reply: &mut Reply<'_>) {
    let asked: Vec<&Command> = match arguments.len() {
        2 => COMMANDS.iter().collect(),
        // Each once: else a short question would have an answer without end.
        _ => COMMANDS.iter().filter(|command| arguments.from(2).any(|name| is_named(command, name))).collect(),
    };
    reply.map(asked.len());
    for command in asked {
        reply.bulk(command.name.to_ascii_lowercase());
        reply.map(3);
        reply.bulk("summary");
        reply.bulk(command.summary);
        reply.bulk("since");
        reply.bulk("1.0.0");
        reply.bulk("group");
        reply.bulk(command.group);
    }
}

fn named(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| is_named(command, name))
}

fn is_named(command: &Command, name: &[u8]) -> bool {
    command.name.as_bytes().eq_ignore_ascii_case(name)
}

/// The ten parts that Redis tells of a command since its version 7.
fn describe(command: &Command, reply: &mut Reply<'_>) {
    let key = i64::from(command.has_key);
    reply.array(10);
    reply.bulk(command.name.to_ascii_lowercase());
    reply.integer(command.arity);
    reply.array(1);
    reply.simple(if command.has_key { "write" } else { "fast" });
    // The positions of the first and the last key, and from one to the next.
    reply.integer(key);
    reply.integer(key);
    reply.integer(key);
    // Categories, tips, where else keys are, and subcommands: none that a client needs.
    for _ in 0..4 {
        reply.array(0);
    }
}
