//! Chooses and tests rate limits with the traffic of access logs.

pub mod calibrate;
pub mod compare;
pub mod log;
pub mod plot;
mod rate_text;
mod record;
pub mod simulate;
pub(crate) mod tally;
pub mod traffic;
mod utc_time;

pub use rate_text::{period_text, period_words, rate_text};
pub use record::LogRecord;
pub use tally::client_index::ClientName;
pub use tally::endpoint_index::EndpointName;
pub use tally::peak_rates::Peaks;
pub use tally::quantiles::Quantiles;
pub use tally::time_series::TimeSeries;
pub use utc_time::UtcTime;
