//! Addresses of clients: as they are written, behind proxies, and in networks.

pub(crate) mod address_text;
pub(crate) mod forwarded;
pub(crate) mod networks;
mod parse;

pub(crate) use parse::{carried, counted, parse};
