//! The road to the servers: our own client, because a call of a rate limiter
//! may be sent again only if it is certain that it was not carried out.
//!
//! From the outside in: a [`client`] finds out through its [`scout`] who owns
//! which slot and keeps that in a [`directory`]; an [`attempt`] follows a call
//! from node to node; a [`node`] has links, and a [`link`] one connection, over
//! which a [`driver`] moves the bytes.

mod access;
mod address;
mod attempt;
mod backoff;
mod call_queue;
mod client;
mod cluster_slots;
mod command;
mod command_writer;
mod directory;
mod driver;
mod key_slot;
mod link;
mod node;
mod node_clock;
mod options;
mod password;
mod reply_parser;
mod scout;
mod script_call;
mod server_error;
mod stream;
mod subscription;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use client::Client;
#[cfg(test)]
pub(crate) use node_clock::MARGIN;
pub use options::{OptionsError, RedisMode, RedisOptions, TlsOptions};
pub use password::Password;
pub(crate) use script_call::{Script, ScriptCall, Timing};
