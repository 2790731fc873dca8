#![allow(clippy::unwrap_used, clippy::print_stderr)]

pub(crate) mod client;
mod debt;
mod differential;
mod measurements;
mod model;
mod outstanding;
mod random;
mod regions;
mod token_leases;
mod trace;
mod values;
