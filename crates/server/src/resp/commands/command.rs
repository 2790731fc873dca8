//! `COMMAND`: describes the commands.

use super::table::{COMMANDS, CommandSpec};
use super::{SYNTAX_ERROR, help, unknown_subcommand, wrong_arity};
use crate::resp::parser::RespArguments;
use crate::resp::reply::RespReply;

const HELP: [&str; 7] = [
    "COMMAND <subcommand> [<argument> ...]. Subcommands are:",
    "(none): a description of every command.",
    "COUNT: the number of commands.",
    "DOCS [<command> ...]: the documentation of commands.",
    "HELP: this text.",
    "INFO [<command> ...]: descriptions of commands.",
    "LIST: the names of commands.",
];

pub(super) fn command(arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
    let Some(subcommand) = arguments.get(1) else {
        reply.array(COMMANDS.len());
        return COMMANDS.iter().for_each(|command| describe(command, reply));
    };
    match subcommand.to_ascii_lowercase().as_slice() {
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
        _ => reply.error(unknown_subcommand("COMMAND", subcommand)),
    }
}

/// Writes the descriptions of the named commands, or of all.
fn info(arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
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

/// Writes the documentation of the named commands, or of all.
fn documents(arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
    let described: Vec<&CommandSpec> = match arguments.len() {
        2 => COMMANDS.iter().collect(),
        // Each once: otherwise a short request would have an unbounded reply.
        _ => COMMANDS.iter().filter(|command| arguments.from(2).any(|name| is_named(command, name))).collect(),
    };
    reply.map(described.len());
    for command in described {
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

fn named(name: &[u8]) -> Option<&'static CommandSpec> {
    COMMANDS.iter().find(|command| is_named(command, name))
}

fn is_named(command: &CommandSpec, name: &[u8]) -> bool {
    command.name.as_bytes().eq_ignore_ascii_case(name)
}

/// Writes the ten parts of a command description since Redis 7.
fn describe(command: &CommandSpec, reply: &mut RespReply<'_>) {
    let key = i64::from(command.has_key);
    reply.array(10);
    reply.bulk(command.name.to_ascii_lowercase());
    reply.integer(command.arity);
    reply.array(1);
    reply.simple(if command.has_key { "write" } else { "fast" });
    // The positions of the first and the last key, and the step.
    reply.integer(key);
    reply.integer(key);
    reply.integer(key);
    // ACL categories, tips, key specifications and subcommands: empty.
    for _ in 0..4 {
        reply.array(0);
    }
}
