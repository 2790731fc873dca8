//! What operators see of the service: metrics, alerts and the dashboard, over real sockets.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod agreement;
#[path = "../service/client.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but HTTP")]
mod client;
#[path = "../gateway/grpc_client.rs"]
mod grpc_client;
#[path = "../gateway/messages.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but gRPC")]
mod messages;
mod names;
mod prometheus;
#[path = "../resp/resp_client.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but RESP")]
mod resp_client;
mod running;
mod scrape;
mod shared_store;
mod traffic;
