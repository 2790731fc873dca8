//! Observation of decisions: the log, the events, and the lists of clients.
#![allow(clippy::unwrap_used, reason = "a helper that fails must fail its test")]

mod bursts;
#[path = "../service/client.rs"]
#[allow(dead_code, reason = "shared with the HTTP tests, which use more of it")]
mod client;
mod flood;
mod lines;
#[path = "../grpc/messages.rs"]
#[allow(dead_code, reason = "shared with the gRPC tests, which use more of it")]
mod messages;
mod near_limit;
mod observed_engine;
mod privacy;
#[path = "../resp/resp_client.rs"]
#[allow(dead_code, reason = "shared with the RESP tests, which use more of it")]
mod resp_client;
mod same_rule;
mod test_service;
mod uncounted;
