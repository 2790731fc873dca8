//! The layer, from outside: through servers, clients and responses.
#![cfg(all(feature = "axum", feature = "tonic"))]
#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod access;
mod app_values;
mod escalation;
mod fields;
mod grpc;
mod jitter;
mod live_change;
mod peer;
mod permits;
mod problem;
mod queue;
mod readiness;
mod real_server;
mod retry_after;
mod settle;
mod spoofing;
mod stacked;
mod store_failure;
mod support;
mod verdict;
