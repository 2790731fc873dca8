//! The road to the servers: our own client, because a call of a rate limiter
//! may be sent again only if it is certain that it was not carried out.
//!
//! From the outside in: a [`client`] finds out through its [`cluster::topology_refresher`] which node owns which slot
//! and keeps that in a [`cluster::directory`]; an [`attempt`] follows a call from node to node; a [`cluster::node`] has
//! links, and a [`connection::link`] one connection, over which a [`connection::driver`] moves the bytes.

mod attempt;
mod client;
mod cluster;
mod connection;
mod options;
mod protocol;
#[cfg(test)]
mod tests;

pub(crate) use client::Client;
#[cfg(test)]
pub(crate) use cluster::node_clock::MARGIN;
pub use connection::password::Password;
pub use options::{OptionsError, RedisMode, RedisOptions, TlsOptions};
pub(crate) use protocol::script_call::{Args, Keys, Script};
