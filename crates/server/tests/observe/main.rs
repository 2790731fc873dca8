//! What the service tells of its decisions: its log, its events, and its lists of clients.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod bursts;
#[path = "../service/client.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but HTTP")]
mod client;
mod every_front_end;
mod flood;
mod lines;
#[path = "../gateway/messages.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but gRPC")]
mod messages;
mod near_limit;
mod observed;
mod privacy;
#[path = "../resp/resp_client.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but RESP")]
mod resp_client;
mod same_rule;
mod uncounted;
