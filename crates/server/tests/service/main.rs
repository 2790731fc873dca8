//! The service through its sockets, on a clock that the tests move.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod bad_requests;
mod check;
mod client;
mod connections;
mod limits;
mod load;
mod metrics;
mod policy;
mod running;
mod stop;
#[cfg(feature = "tls")]
mod tls;
