//! The RESP front end through its socket, with a manual clock.
#![allow(clippy::unwrap_used, reason = "a helper that fails must fail its test")]

mod check;
#[path = "../service/client.rs"]
#[allow(dead_code, reason = "shared with the HTTP tests, which use more of it")]
mod client;
mod greetings;
mod hostile;
mod idle;
mod many_quotas;
mod metrics;
mod partial;
mod pipeline;
mod resp_client;
mod shared_throttle;
mod stop;
#[path = "../service/test_service.rs"]
#[allow(dead_code, reason = "shared with the HTTP tests, which use more of it")]
mod test_service;
mod throttle;
mod trickle;
