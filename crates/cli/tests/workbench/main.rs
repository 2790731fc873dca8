//! Tests of `simulate`, `compare` and `calibrate` as processes.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod calibrate;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../server/tests/service/client.rs"]
mod client;
mod compare;
mod logs;
mod program;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../program/running.rs"]
mod running;
mod served;
mod simulate;
