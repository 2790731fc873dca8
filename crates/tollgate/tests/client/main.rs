//! The client layer, in virtual time, around services that behave as servers do.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod hostile_fields;
mod limiter;
mod pauses;
mod queue;
mod retries;
mod server;
