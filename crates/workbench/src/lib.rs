//! Chooses and tests rate limits with the traffic of access logs.

mod record;

pub use record::LogRecord;
