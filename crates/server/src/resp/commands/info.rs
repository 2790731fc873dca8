//! `INFO`: as much as clients look for before they go to work.

use super::connection::DIALECT;
use crate::resp::parser::Arguments;
use crate::resp::reply::Reply;

/// The sections with their lines, each of which ends like all text of Redis.
const SECTIONS: [(&str, &str); 3] = [
    ("server", "# Server\r\nredis_version:{dialect}\r\nredis_mode:standalone\r\ntollgate_version:{version}\r\n"),
    ("persistence", "# Persistence\r\nloading:0\r\n"),
    ("replication", "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"),
];

const ALL: [&str; 3] = ["default", "all", "everything"];

pub(super) fn info(arguments: Arguments<'_>, reply: &mut Reply<'_>) {
    let is_asked = |section: &str| {
        let mut names = arguments.from(1);
        arguments.len() == 1 || names.any(|name| name.eq_ignore_ascii_case(section.as_bytes()))
    };
    let is_all_asked = ALL.into_iter().any(is_asked);
    let sections: Vec<&str> =
        SECTIONS.iter().filter(|(name, _)| is_all_asked || is_asked(name)).map(|(_, lines)| *lines).collect();
    let text = sections.join("\r\n");
    reply.text(&text.replace("{dialect}", DIALECT).replace("{version}", env!("CARGO_PKG_VERSION")));
}
