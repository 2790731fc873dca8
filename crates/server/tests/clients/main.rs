//! Clients that other people wrote, against the service on a clock that stands still.
//!
//! Each needs its program, or, in the variable of its name, where that is: a command for `CURL`,
//! a directory of packages for `REDIS_PY`. `scripts/test` installs them.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

#[cfg(feature = "tls")]
#[path = "../service/authority.rs"]
#[allow(dead_code, reason = "made for those who look closer at TLS")]
mod authority;
#[path = "../service/client.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but HTTP")]
mod client;
mod curl;
mod grpcio;
mod h2load;
mod ioredis;
#[path = "../gateway/messages.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but gRPC")]
mod messages;
mod program;
mod redis_benchmark;
mod redis_cli;
mod redis_py;
#[path = "../service/running.rs"]
#[allow(dead_code, reason = "made for those who speak nothing but HTTP")]
mod running;
