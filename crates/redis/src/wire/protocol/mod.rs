//! RESP: writing commands and parsing replies.

pub(super) mod command;
pub(super) mod reply_parser;
pub(super) mod script_call;
pub(super) mod server_error;
