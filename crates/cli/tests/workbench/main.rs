//! Tests of `simulate`, `compare` and `calibrate` as processes.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod calibrate;
mod compare;
mod logs;
mod program;
mod simulate;
