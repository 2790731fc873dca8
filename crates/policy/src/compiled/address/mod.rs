//! Client addresses: parsing, formatting, forwarding headers, and networks.

pub(crate) mod address_text;
pub(crate) mod forwarded;
pub(crate) mod networks;
mod parse;

pub(crate) use parse::{embedded_v4, key_address, parse};
