//! The program as people run it: arguments, listeners, signals, exit codes.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod access;
mod admin_token;
mod callers;
#[path = "../../../server/tests/service/client.rs"]
mod client;
mod hostile;
mod log;
mod outputs;
mod policies;
mod reload;
#[allow(dead_code, reason = "the tests of the front end use more of it")]
#[path = "../../../server/tests/resp/resp_client.rs"]
mod resp_client;
mod rls_client;
mod running;
mod serve;
mod shared_store;
mod snapshot;
mod snapshot_trouble;
mod stopping;
mod usage;
