//! Tests of the applications in `examples` that call the service, with the real frameworks.
//!
//! A test needs its framework in the directory of the variable of its name (`FASTAPI`); `scripts/test` installs them.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod application;
#[allow(dead_code, reason = "gateways also return problem details")]
#[path = "../gateways/client.rs"]
mod client;
mod express;
mod fastapi;
mod flask;
mod python3;
mod scenarios;
mod service;
mod spring;
