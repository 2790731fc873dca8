//! Outcomes of checks while real servers fail, and the usage counted afterwards.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod accounting;
mod bad_keys;
mod cluster;
mod connections;
mod idle;
mod memory;
mod outage;
mod passwords;
mod scripts;
mod sentinel;
mod stalls;
#[path = "../support/mod.rs"]
mod support;
mod unknown_outcomes;
mod wrong_mode;
