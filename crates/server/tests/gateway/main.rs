//! The gRPC front end through its socket, on a clock that the tests move.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod access;
mod bounds;
mod descriptors;
mod grpc_client;
mod health;
mod hostile_values;
mod messages;
mod overrides;
mod reflection;
mod running;
