//! The parts that several formats share: times, addresses, escapes.

mod address;
mod escapes;
mod time;

pub(super) use address::{is_address_list, parse_address, split_port};
pub(super) use escapes::{escaped, unescape_json, unescape_log};
pub(super) use time::{TimeParser, rfc3339};
