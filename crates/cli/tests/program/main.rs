//! Tests of the program as a process: arguments, listeners, signals, exit codes.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod access;
mod admin_token;
mod attacker;
mod callers;
#[path = "../../../server/tests/service/client.rs"]
mod client;
mod demo;
mod hostile;
mod identities;
mod key_rotation;
mod leases;
mod log;
mod manual;
mod one_address;
mod outputs;
mod policies;
mod ready;
mod region_servers;
mod regions;
mod reload;
mod remote;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../server/tests/resp/resp_client.rs"]
mod resp_client;
mod rls_client;
mod running;
mod secrets;
mod serve;
mod shared_store;
mod snapshot;
mod snapshot_failures;
mod stopping;
mod top;
mod usage;
