//! Tests of the client with real servers. They print measurements; `--nocapture` shows them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod cluster;
mod expiry;
mod failures;
mod helpers;
mod sentinel;
mod standalone;
mod throughput;
#[cfg(feature = "tls")]
mod tls;
