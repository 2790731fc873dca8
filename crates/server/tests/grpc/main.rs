//! The gRPC front end through its socket, with a manual clock.
#![allow(clippy::unwrap_used, reason = "a helper that fails must fail its test")]

mod access;
mod bounds;
mod descriptors;
mod grpc_client;
mod health;
mod hostile_values;
mod messages;
mod overrides;
mod reflection;
mod test_service;
