//! The RESP front end through its socket, on a clock that the tests move.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod check;
#[path = "../service/client.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but HTTP")]
mod client;
mod greetings;
mod hostile;
mod idle;
mod many_quotas;
mod metrics;
mod partial;
mod pipeline;
mod resp_client;
#[path = "../service/running.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but HTTP")]
mod running;
mod shared_throttle;
mod stop;
mod throttle;
mod trickle;
