//! Third-party clients against the service, with a stopped clock.
//!
//! Each test needs its program: on the PATH, or at the path in the environment variable of its name, which is a
//! command for `CURL`, and a directory of packages for `REDIS_PY`. `scripts/test` installs them.
#![allow(clippy::unwrap_used, reason = "a helper that fails must fail its test")]

#[cfg(feature = "tls")]
#[path = "../service/authority.rs"]
#[allow(dead_code, reason = "shared with the TLS tests, which use more of it")]
mod authority;
#[path = "../service/client.rs"]
#[allow(dead_code, reason = "shared with the HTTP tests, which use more of it")]
mod client;
mod curl;
mod grpcio;
mod h2load;
mod ioredis;
mod limited_api;
#[path = "../grpc/messages.rs"]
#[allow(dead_code, reason = "shared with the gRPC tests, which use more of it")]
mod messages;
mod node;
mod program;
mod python3;
mod redis_benchmark;
mod redis_cli;
mod redis_py;
#[path = "../service/test_service.rs"]
#[allow(dead_code, reason = "shared with the HTTP tests, which use more of it")]
mod test_service;
