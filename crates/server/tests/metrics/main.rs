//! Metrics, alerts and the dashboard, over real sockets.
#![allow(clippy::unwrap_used, reason = "a helper that fails must fail its test")]

mod agreement;
#[path = "../service/client.rs"]
#[allow(dead_code, reason = "shared with the HTTP tests, which use more of it")]
mod client;
#[path = "../grpc/grpc_client.rs"]
mod grpc_client;
#[path = "../grpc/messages.rs"]
#[allow(dead_code, reason = "shared with the gRPC tests, which use more of it")]
mod messages;
mod metric_names;
mod prometheus;
#[path = "../resp/resp_client.rs"]
#[allow(dead_code, reason = "shared with the RESP tests, which use more of it")]
mod resp_client;
mod scrape;
mod shared_store;
mod test_service;
mod traffic;
