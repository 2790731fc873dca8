//! RESP: what is written to a server, and what is read from it.

pub(super) mod command;
pub(super) mod reply_parser;
pub(super) mod script_call;
pub(super) mod server_error;
