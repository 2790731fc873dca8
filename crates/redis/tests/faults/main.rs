//! What checks hear while real servers are in trouble, and what is counted afterwards.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod accounting;
mod ambiguous;
mod bad_keys;
mod cluster;
mod connections;
mod idle;
mod memory;
mod outage;
mod scripts;
mod sentinel;
mod stalls;
#[path = "../support/mod.rs"]
mod support;
