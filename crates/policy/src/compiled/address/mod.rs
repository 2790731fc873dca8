//! Addresses of clients: as they are written, behind proxies, and in networks.

pub(in crate::compiled) mod address_text;
pub(in crate::compiled) mod forwarded;
pub(in crate::compiled) mod networks;
mod parse;

pub(crate) use parse::{carried, counted, parse};
