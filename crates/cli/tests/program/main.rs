//! The program as people run it: arguments, listeners, signals, exit codes.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod admin_token;
#[path = "../../../server/tests/service/client.rs"]
mod client;
mod hostile;
mod identities;
mod log;
mod outputs;
mod policies;
mod reload;
mod rls_client;
mod running;
mod serve;
mod shared_store;
mod snapshot;
mod snapshot_trouble;
mod stopping;
mod usage;
