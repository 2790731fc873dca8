//! Contestants that take turns.

use std::sync::Arc;
use std::thread;

use tollgate_store::MemoryStore;

use crate::contestants::Contestant;
use crate::keys::{BenchKey, Population, Sequence};
use crate::measure::{median, stretch};
use crate::options::Effort;

/// The medians of interleaved rounds. Every round draws new keys, the same for all contestants.
pub(crate) fn rounds<K: BenchKey>(
    entrants: &[Entrant<K>],
    population: &Population,
    sequences: &mut [Sequence<K>],
    warm_up: usize,
    checks: usize,
    effort: Effort,
) -> Vec<f64> {
    let mut samples = vec![Vec::new(); entrants.len()];
    for round in 0..effort.rounds() {
        for sequence in &mut *sequences {
            sequence.draw(population);
        }
        for turn in 0..entrants.len() {
            let at = (turn + round) % entrants.len();
            let stretch = stretch(&*entrants[at].contestant, sequences, warm_up, checks);
            entrants[at].assert_answers(stretch.allowed, stretch.checks);
            samples[at].push(stretch.ns_per_check);
        }
    }
    samples.into_iter().map(median).collect()
}

/// A contestant under a quota, with all keys created.
pub(crate) struct Entrant<K> {
    pub(crate) name: &'static str,
    pub(crate) allows: bool,
    pub(crate) contestant: Box<dyn Contestant<K>>,
    /// tollgate's store, to inspect its statistics.
    pub(crate) store: Option<Arc<MemoryStore>>,
}

/// A run is valid if at most one live key in this number was evicted. That is ten times the goal: a store that misses
/// the goal is reported, and does not end the run.
const KEYS_PER_EVICTION: u64 = 1_000;

impl<K> Entrant<K> {
    /// Asserts that all checks were allowed, or all refused.
    pub(crate) fn assert_answers(&self, allowed: u64, checks: u64) {
        let name = self.name;
        if self.allows {
            assert!(allowed == checks, "{name}: {allowed} of {checks} allowed, expected all");
        } else {
            // An evicted key is new again at its next check.
            let forgiven = if self.store.is_some() { checks / KEYS_PER_EVICTION } else { 0 };
            assert!(allowed <= forgiven, "{name}: {allowed} of {checks} allowed, expected none");
        }
    }

    /// Asserts that the table has the load of the group at the end.
    pub(crate) fn assert_live(&self, keys: u64) {
        let Some(stats) = self.store.as_ref().map(|store| store.stats()) else { return };
        let off = stats.live_keys.abs_diff(keys as usize);
        // A large table is sampled.
        assert!(off <= keys as usize / 20, "{}: {} keys live of {}", self.name, stats.live_keys, keys);
        let evicted = stats.evictions;
        assert!(evicted <= keys / KEYS_PER_EVICTION, "{}: {evicted} live keys forgotten", self.name);
    }
}

/// Checks every key once, from two threads. All are allowed.
pub(crate) fn touch_all<K: BenchKey>(contestant: &dyn Contestant<K>, keys: u64, name: &str) {
    let allowed = count_allowed(contestant, keys);
    // About one key in a billion shares a fingerprint with another, and its budget.
    assert!(keys - allowed <= 2, "{name}: {allowed} of {keys} first checks allowed");
}

/// Checks every key once, from two threads. Returns the number of allowed checks.
pub(crate) fn count_allowed<K: BenchKey>(contestant: &dyn Contestant<K>, keys: u64) -> u64 {
    let middle = keys / 2;
    thread::scope(|scope| {
        let below = scope.spawn(|| touch(contestant, 0, middle));
        let above = scope.spawn(|| touch(contestant, middle, keys));
        [below, above].into_iter().map(|half| half.join().unwrap_or_else(|_| panic!("a contestant panicked"))).sum()
    })
}

fn touch<K: BenchKey>(contestant: &dyn Contestant<K>, start: u64, end: u64) -> u64 {
    const CHUNK: u64 = 10_000;
    let mut chunk: Vec<K> = (0..CHUNK).map(K::of).collect();
    let order: Vec<u32> = (0..CHUNK as u32).collect();
    let mut allowed = 0;
    for first in (start..end).step_by(CHUNK as usize) {
        let len = CHUNK.min(end - first) as usize;
        for (key, number) in chunk[..len].iter_mut().zip(first..) {
            key.become_key(number);
        }
        allowed += contestant.run(&chunk, &order[..len]).allowed;
    }
    allowed
}
