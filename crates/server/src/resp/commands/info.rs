//! `INFO`: the sections that clients read.

use super::connection::REDIS_VERSION;
use crate::resp::parser::RespArguments;
use crate::resp::reply::RespReply;

/// The sections with their lines.
const SECTIONS: [(&str, &str); 3] = [
    ("server", "# Server\r\nredis_version:{dialect}\r\nredis_mode:standalone\r\ntollgate_version:{version}\r\n"),
    ("persistence", "# Persistence\r\nloading:0\r\n"),
    ("replication", "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"),
];

const ALL: [&str; 3] = ["default", "all", "everything"];

pub(super) fn info(arguments: RespArguments<'_>, reply: &mut RespReply<'_>) {
    let is_requested = |section: &str| {
        let mut names = arguments.from(1);
        arguments.len() == 1 || names.any(|name| name.eq_ignore_ascii_case(section.as_bytes()))
    };
    let wants_all = ALL.into_iter().any(is_requested);
    let sections: Vec<&str> =
        SECTIONS.iter().filter(|(name, _)| wants_all || is_requested(name)).map(|(_, lines)| *lines).collect();
    let text = sections.join("\r\n");
    reply.text(&text.replace("{dialect}", REDIS_VERSION).replace("{version}", env!("CARGO_PKG_VERSION")));
}
