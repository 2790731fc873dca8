//! Reading of access logs, through the public interface.
#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

mod contents;
mod formats;
mod order;
mod properties;
mod reading;
mod rejected;
