//! The Redis client. It is a custom client, because a call of a rate limiter may be sent again only if it was certainly
//! not executed.
//!
//! From the outside in: the [`client`] learns from its [`cluster::topology_refresher`] which node owns which slot, and
//! stores that in a [`cluster::directory`]; an [`attempt`] sends a call and follows redirections; a [`cluster::node`]
//! has links, and a [`connection::link`] keeps one connection, over which a [`connection::driver`] writes calls and
//! reads replies.

mod attempt;
mod client;
mod client_event;
mod cluster;
mod connection;
mod options;
mod protocol;
#[cfg(test)]
mod tests;

pub(crate) use client::RedisClient;
pub(crate) use client_event::{ClientEvent, OnClientEvent};
#[cfg(test)]
pub(crate) use cluster::node_clock::MARGIN;
pub use connection::password::Password;
pub use options::{OptionsError, RedisMode, RedisOptions, TlsOptions};
pub(crate) use protocol::script_call::{Args, Script, ScriptKeys};
