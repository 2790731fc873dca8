//! Chooses and tests rate limits with the traffic of access logs.

pub mod log;
mod record;

pub use record::LogRecord;
