//! The state of the store, in figures and in words.

use std::time::Duration;

use serde::Serialize;
use tollgate::redis::{BreakerState, MissingShare, RedisStore, RegionStatus, StoreStats};
use tollgate::store::Stats;

use crate::engine::Engine;
use crate::http::admin::regions::RegionStatusBody;
use crate::store::{memory_stats, region_status};

/// How well the store works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum StoreHealth {
    /// As configured.
    Ok,
    /// With a restriction that an operator should know.
    Degraded,
    /// Requests are decided without it.
    Failing,
}

/// The state of the store as JSON.
#[derive(Debug, Serialize)]
pub(super) struct StoreBody {
    kind: &'static str,
    state: StoreHealth,
    /// The state in a sentence.
    summary: String,
    #[serde(flatten)]
    figures: StoreFigures,
    region: Option<RegionStatusBody>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum StoreFigures {
    Memory {
        keys: u64,
        entries: u64,
        evictions: u64,
        refused_full: u64,
        bytes: u64,
    },
    Redis {
        servers: u64,
        failing_servers: u64,
        fallbacks: u64,
        cached_refusals: u64,
        leased_decisions: u64,
        debts: u64,
        sync_lag_ms: u64,
    },
}

/// The losses at an earlier time, with which a summary compares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoreLosses {
    evictions: u64,
    refused_full: u64,
}

/// Tables of so many entries are counted, and larger ones are estimated.
const COUNTED_ENTRIES: u64 = 40_000;

/// An estimate below this is not stated: 0 may be hundreds.
const ESTIMATED_KEYS: u64 = 1_000;

impl StoreLosses {
    pub(super) fn of(engine: &Engine) -> StoreLosses {
        memory_stats(engine.limiter()).map_or_else(StoreLosses::default, |stats| StoreLosses {
            evictions: stats.evictions,
            refused_full: stats.refused_full,
        })
    }
}

impl StoreBody {
    pub(super) fn new(engine: &Engine, before: StoreLosses) -> StoreBody {
        if let Some(store) = engine.limiter().store_as::<RedisStore>() {
            return StoreBody::of_redis(&store.stats(), store.is_ready()).with_region(store.region_status());
        }
        let entries = engine.memory_entries().unwrap_or(0);
        match memory_stats(engine.limiter()) {
            Some(stats) => StoreBody::of_memory(&stats, entries, before).with_region(region_status(engine.limiter())),
            None => StoreBody::unknown(),
        }
    }

    /// Adds the state of the region, if there are several.
    fn with_region(mut self, region: Option<RegionStatus>) -> StoreBody {
        if let Some(region) = &region {
            let (of_region, words) = region_summary(region);
            self.state = self.state.max(of_region);
            self.summary += &words;
        }
        StoreBody { region: region.map(RegionStatusBody::from), ..self }
    }

    fn of_memory(stats: &Stats, entries: u64, before: StoreLosses) -> StoreBody {
        // The tables have spare slots, and each kind of algorithm has a table of its own.
        let keys = (stats.live_keys as u64).min(entries);
        let is_evicting = stats.evictions > before.evictions;
        let (state, summary) = if stats.refused_full > before.refused_full {
            (StoreHealth::Failing, "The memory store is full and refuses requests of new keys.".to_owned())
        } else if is_evicting {
            (
                StoreHealth::Degraded,
                "The memory store is full: it evicts live keys, whose limits begin anew.".to_owned(),
            )
        } else {
            (
                StoreHealth::Ok,
                format!(
                    "Counters are in this process: {} of {} keys are in use.",
                    in_use(keys, entries),
                    grouped(entries)
                ),
            )
        };
        let figures = StoreFigures::Memory {
            keys,
            entries,
            evictions: stats.evictions,
            refused_full: stats.refused_full,
            bytes: stats.bytes as u64,
        };
        StoreBody { kind: "memory", state, summary, figures, region: None }
    }

    fn of_redis(stats: &StoreStats, is_ready: bool) -> StoreBody {
        let servers = stats.breakers.len();
        let failing = stats.breakers.iter().filter(|(_, state)| *state != BreakerState::Closed).count();
        let (mut state, mut summary) = servers_summary(stats, servers, failing, is_ready);
        if stats.debts > 0 {
            let age = seconds(stats.oldest_debt);
            summary += &format!(
                " The usage of {} is not yet counted on Redis, the oldest for {age}.",
                count(stats.debts, "key")
            );
            state = state.max(StoreHealth::Degraded);
        }
        let figures = StoreFigures::Redis {
            servers: servers as u64,
            failing_servers: failing as u64,
            fallbacks: stats.fallbacks_open + stats.fallbacks_closed + stats.fallbacks_local,
            cached_refusals: stats.cached_refusals,
            leased_decisions: stats.leased_decisions,
            debts: stats.debts,
            sync_lag_ms: u64::try_from(stats.oldest_debt.as_millis()).unwrap_or(u64::MAX),
        };
        StoreBody { kind: "redis", state, summary, figures, region: None }
    }

    fn unknown() -> StoreBody {
        let figures = StoreFigures::Memory { keys: 0, entries: 0, evictions: 0, refused_full: 0, bytes: 0 };
        let summary = "The store reports no state.".to_owned();
        StoreBody { kind: "other", state: StoreHealth::Ok, summary, figures, region: None }
    }
}

impl StoreHealth {
    fn max(self, other: StoreHealth) -> StoreHealth {
        if (other as u8) > (self as u8) { other } else { self }
    }
}

fn servers_summary(stats: &StoreStats, servers: usize, failing: usize, is_ready: bool) -> (StoreHealth, String) {
    let is_open = stats.breakers.iter().any(|(_, state)| *state == BreakerState::Open);
    if failing == 0 && !is_ready {
        return (StoreHealth::Degraded, "Counters are on Redis, which cannot be reached at present.".to_owned());
    }
    if failing == 0 {
        let summary = match servers {
            0 => "Counters are on Redis; no request has needed it yet.".to_owned(),
            1 => "Counters are on Redis, which answers.".to_owned(),
            more => format!("Counters are on {more} Redis servers, which answer."),
        };
        return (StoreHealth::Ok, summary);
    }
    let what = if servers == 1 { "Redis".to_owned() } else { format!("{failing} of {servers} Redis servers") };
    if is_open {
        let verb = if servers > 1 && failing > 1 { "do" } else { "does" };
        let summary =
            format!("{what} {verb} not answer: the circuit breaker is open, and rules apply their on_failure mode.");
        return (StoreHealth::Failing, summary);
    }
    (StoreHealth::Degraded, format!("{what} failed, and trial calls test whether it answers again."))
}

fn region_summary(region: &RegionStatus) -> (StoreHealth, String) {
    let name = &region.region;
    if let Some(missing) = region.missing_share {
        let why = match missing {
            MissingShare::NothingAgreed => "it has not reached the global server",
            MissingShare::NotMember => "the agreed weights do not include it",
            MissingShare::NotRead => "this instance has not read its store for an epoch",
            other => other.name(),
        };
        return (StoreHealth::Failing, format!(" Region {name} has no share of the limits: {why}."));
    }
    match region.synced_before {
        None => (StoreHealth::Degraded, format!(" Region {name} has not synchronised yet.")),
        Some(lag) if lag > 2 * region.epoch => {
            (StoreHealth::Degraded, format!(" Region {name} last synchronised {} ago.", seconds(lag)))
        }
        Some(lag) => (StoreHealth::Ok, format!(" Region {name} synchronised {} ago.", seconds(lag))),
    }
}

fn count(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The number of keys in use. That of a large table is an estimate from a sample, which misses a few keys.
fn in_use(keys: u64, entries: u64) -> String {
    match keys {
        _ if entries <= COUNTED_ENTRIES => grouped(keys),
        0..ESTIMATED_KEYS => format!("fewer than {}", grouped(ESTIMATED_KEYS)),
        more => format!("about {}", grouped(more)),
    }
}

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let (first, groups) = digits.split_at((digits.len() + 2) % 3 + 1);
    groups.as_bytes().chunks(3).fold(first.to_owned(), |text, group| text + "," + &String::from_utf8_lossy(group))
}

fn seconds(duration: Duration) -> String {
    format!("{}.{} s", duration.as_secs(), duration.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(breakers: &[BreakerState]) -> StoreBody {
        let breakers = (0..).zip(breakers.iter().copied()).collect();
        let mut stats = StoreStats::default();
        stats.breakers = breakers;
        StoreBody::of_redis(&stats, true)
    }

    #[test]
    fn failing_servers_are_described_by_their_breakers() {
        let healthy = redis(&[BreakerState::Closed]);
        assert_eq!((healthy.state, &*healthy.summary), (StoreHealth::Ok, "Counters are on Redis, which answers."));
        let one = redis(&[BreakerState::Open]);
        assert_eq!(one.state, StoreHealth::Failing);
        assert!(one.summary.starts_with("Redis does not answer: the circuit breaker is open"), "{}", one.summary);
        let two = redis(&[BreakerState::Open, BreakerState::HalfOpen, BreakerState::Closed]);
        assert!(two.summary.starts_with("2 of 3 Redis servers do not answer"), "{}", two.summary);
        assert_eq!(redis(&[BreakerState::HalfOpen]).state, StoreHealth::Degraded);
    }

    #[test]
    fn servers_that_have_not_answered_yet_degrade_the_store() {
        let body = StoreBody::of_redis(&StoreStats::default(), false);
        assert_eq!(body.state, StoreHealth::Degraded);
        assert_eq!(body.summary, "Counters are on Redis, which cannot be reached at present.");
    }

    #[test]
    fn uncounted_usage_is_the_sync_lag() {
        let mut stats = StoreStats::default();
        (stats.debts, stats.oldest_debt) = (3, Duration::from_millis(3_250));
        let body = StoreBody::of_redis(&stats, true);
        assert_eq!(body.state, StoreHealth::Degraded);
        assert!(
            body.summary.ends_with("The usage of 3 keys is not yet counted on Redis, the oldest for 3.2 s."),
            "{}",
            body.summary
        );
    }

    #[test]
    fn estimates_are_named_as_such() {
        let entries = 1_000_000;
        assert_eq!([0, 999].map(|keys| in_use(keys, entries)), ["fewer than 1,000"; 2]);
        assert_eq!((in_use(2_560, entries), in_use(7, 100)), ("about 2,560".to_owned(), "7".to_owned()));
    }

    #[test]
    fn thousands_are_grouped() {
        let texts = [0, 12, 999, 1_000, 12_345, 123_456, 1_000_000].map(grouped);
        assert_eq!(texts, ["0", "12", "999", "1,000", "12,345", "123,456", "1,000,000"]);
    }

    #[test]
    fn summary_never_states_more_keys_than_entries() {
        let stats = Stats { live_keys: 168, ..Stats::default() };
        let body = StoreBody::of_memory(&stats, 100, StoreLosses { evictions: 0, refused_full: 0 });
        assert_eq!(body.summary, "Counters are in this process: 100 of 100 keys are in use.");
    }

    #[test]
    fn evictions_degrade_the_store_while_they_happen() {
        let stats = Stats { live_keys: 10, evictions: 7, ..Stats::default() };
        let since = |evictions| StoreBody::of_memory(&stats, 10, StoreLosses { evictions, refused_full: 0 }).state;
        assert_eq!((since(6), since(7)), (StoreHealth::Degraded, StoreHealth::Ok));
    }
}
