#![allow(clippy::unwrap_used, clippy::print_stderr)]

pub(crate) mod client;
mod debt;
mod differential;
mod figures;
mod model;
mod random;
mod trace;
mod values;
