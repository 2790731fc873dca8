//! The client against real servers. Figures are printed for who wants to see them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod cluster;
mod expiry;
mod helpers;
mod sentinel;
mod standalone;
mod throughput;
#[cfg(feature = "tls")]
mod tls;
mod trouble;
