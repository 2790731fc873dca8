//! Counters of traffic that all analyses share. Their memory grows with clients and endpoints, not with requests.

pub(crate) mod client_index;
pub(crate) mod endpoint_index;
pub(crate) mod peak_rates;
pub(crate) mod quantiles;
pub(crate) mod time_series;

/// A span of time in nanoseconds.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// A span of time in nanoseconds.
pub(crate) const MINUTE_NS: u64 = 60 * SECOND_NS;
/// A span of time in nanoseconds.
pub(crate) const HOUR_NS: u64 = 60 * MINUTE_NS;

/// Converts an index or a count of things in memory, of which there are far fewer than `u32::MAX`.
pub(crate) fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns a share in percent, with as many digits as a double has. For display only.
#[expect(clippy::float_arithmetic, reason = "a figure for people, which decides nothing")]
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
