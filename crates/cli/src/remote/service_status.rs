//! The state of a running service, as `GET /api/status` and `GET /api/live` describe it.

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ServiceStatus {
    pub(crate) version: String,
    pub(crate) started_at: String,
    pub(crate) decisions: Decisions,
    pub(crate) latency: Latency,
    pub(crate) store: StoreStatus,
    pub(crate) rules: Vec<RuleStatus>,
    pub(crate) omitted_rules: u64,
    pub(crate) clients: Vec<RefusedClientStatus>,
    pub(crate) policy: PolicyStatus,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Decisions {
    pub(crate) allowed_per_second: u64,
    pub(crate) refused_per_second: u64,
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_at_most_ns: Option<u64>,
    pub(crate) p99_at_most_ns: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct StoreStatus {
    /// `ok`, `degraded` or `failing`.
    pub(crate) state: String,
    pub(crate) summary: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RuleStatus {
    pub(crate) rule: String,
    pub(crate) allowed_per_second: u64,
    pub(crate) refused_per_second: u64,
    pub(crate) would_refuse_per_second: u64,
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    pub(crate) would_refuse: u64,
    pub(crate) headroom_percent: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RefusedClientStatus {
    pub(crate) rule: String,
    pub(crate) client: String,
    pub(crate) count: u64,
    pub(crate) per_minute: u64,
    pub(crate) last_seen: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PolicyStatus {
    pub(crate) fingerprint: String,
    pub(crate) loaded_at: String,
    pub(crate) last_reload: Option<LastReload>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LastReload {
    pub(crate) time: String,
    pub(crate) done: bool,
}

/// The decisions a second of the last minute, the newest last.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct RateLists {
    pub(crate) allowed: Vec<u64>,
    pub(crate) refused: Vec<u64>,
}

impl ServiceStatus {
    /// Returns a share of the refused decisions, a second or in all, as numerator and denominator.
    pub(crate) fn refused_share(&self) -> (u64, u64) {
        let Decisions { allowed_per_second, refused_per_second, .. } = self.decisions;
        (refused_per_second, allowed_per_second + refused_per_second)
    }

    /// Returns the latencies in words.
    pub(crate) fn latency_words(&self) -> String {
        match (self.latency.p50_at_most_ns, self.latency.p99_at_most_ns) {
            (Some(p50), Some(p99)) => format!("p50 ≤ {}, p99 ≤ {}", short_time(p50), short_time(p99)),
            _ => "not measured yet".to_owned(),
        }
    }
}

/// Returns a time with at most three digits before the unit.
fn short_time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_keeps_them_short() {
        assert_eq!(
            [0, 999, 1_000, 64_500, 2_000_000, 3_000_000_000].map(short_time),
            ["0 ns", "999 ns", "1 µs", "64 µs", "2 ms", "3 s"]
        );
    }
}
