//! Debts: usage that was admitted while a server failed and is not yet charged at the server.
//!
//! The next call for a key pays its debt: it charges the debt at the server, without a check. A debt is void when its
//! charges would not affect the key's state any more. It is not the debt of a quota (`max_debt`), which is part of the
//! state on the server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The least time between two scans of a full table. A scan takes a millisecond or two.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// The debts of this instance, by the names of keys. The table is bounded: debts that do not fit are dropped and never
/// charged. An entry takes about 60 bytes in addition to the name of its key, and the table up to twice as much as its
/// entries.
pub(crate) struct Debts {
    table: Mutex<Table>,
    /// The number of debts, read without the lock. Usually there are none.
    count: AtomicUsize,
    max_keys: usize,
}

#[derive(Default)]
struct Table {
    by_key: HashMap<Arc<[u8]>, KeyDebt>,
    /// The earliest time of the next scan for void debts. In an outage every request may have a new key, and must not
    /// scan all others each time.
    scan_at: Option<Instant>,
    #[cfg(test)]
    scans: u32,
}

impl Table {
    /// Removes void debts from a full table, unless a scan ran within the last [`SCAN_INTERVAL`].
    fn remove_void(&mut self, now: Instant) {
        if self.scan_at.is_some_and(|at| now < at) {
            return;
        }
        self.scan_at = Some(now + SCAN_INTERVAL);
        self.by_key.retain(|_, debt| now < debt.void_at && debt.amount > 0);
        #[cfg(test)]
        {
            self.scans += 1;
        }
    }
}

/// The debt of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyDebt {
    pub(crate) amount: u64,
    /// The time at which the first of its charges was admitted.
    pub(crate) since: Instant,
    /// The time from which its charges would not affect the key's state any more.
    pub(crate) void_at: Instant,
}

impl Debts {
    pub(crate) fn new(max_keys: usize) -> Debts {
        Debts { table: Mutex::default(), count: AtomicUsize::new(0), max_keys }
    }

    /// Records a charge that no server has counted and that would affect the key's state for `retention`. Returns
    /// `false` if the table is full.
    pub(crate) fn add(&self, key: &Arc<[u8]>, amount: u64, retention: Duration, now: Instant) -> bool {
        self.put(key, KeyDebt { amount, since: now, void_at: now + retention }, now)
    }

    /// Adds a debt, or restores one that was taken and not paid. Returns `false` if the table is full.
    pub(crate) fn put(&self, key: &Arc<[u8]>, debt: KeyDebt, now: Instant) -> bool {
        let mut table = self.table();
        if table.by_key.len() >= self.max_keys && !table.by_key.contains_key(key) {
            table.remove_void(now);
        }
        let Table { by_key, .. } = &mut *table;
        let count = by_key.len();
        let is_stored = match by_key.get_mut(key) {
            Some(known) => {
                known.amount = known.amount.saturating_add(debt.amount);
                known.since = known.since.min(debt.since);
                known.void_at = known.void_at.max(debt.void_at);
                true
            }
            None if count < self.max_keys => by_key.insert(Arc::clone(key), debt).is_none(),
            None => false,
        };
        self.count.store(by_key.len(), Ordering::Relaxed);
        is_stored
    }

    /// Returns whether no more than half of the capacity is used.
    pub(crate) fn is_at_most_half_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) <= self.max_keys / 2
    }

    /// Returns whether a key has a debt.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.table().by_key.contains_key(key)
    }

    /// Removes and returns the debt of a key, so that it is paid once.
    pub(crate) fn take(&self, key: &[u8], now: Instant) -> Option<KeyDebt> {
        if self.is_empty() {
            return None;
        }
        let by_key = &mut self.table().by_key;
        let debt = by_key.remove(key);
        self.count.store(by_key.len(), Ordering::Relaxed);
        debt.filter(|debt| now < debt.void_at && debt.amount > 0)
    }

    /// Reduces the debt of a key by at most `amount`, because of a refund. Returns the reduction.
    pub(crate) fn reduce(&self, key: &[u8], amount: u64) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let by_key = &mut self.table().by_key;
        let Some(debt) = by_key.get_mut(key) else { return 0 };
        let reduced = debt.amount.min(amount);
        debt.amount -= reduced;
        reduced
    }

    /// Returns the number of debts and the age of the oldest. Removes void debts.
    pub(crate) fn pending(&self, now: Instant) -> (usize, Duration) {
        if self.is_empty() {
            return (0, Duration::ZERO);
        }
        let by_key = &mut self.table().by_key;
        by_key.retain(|_, debt| now < debt.void_at && debt.amount > 0);
        self.count.store(by_key.len(), Ordering::Relaxed);
        let oldest = by_key.values().map(|debt| debt.since).min();
        (by_key.len(), oldest.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)))
    }

    /// Returns the number of debts, including void ones that are not removed yet.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    fn key(name: &str) -> Arc<[u8]> {
        name.as_bytes().into()
    }

    #[test]
    fn a_debt_is_taken_once() {
        let (debts, now) = (Debts::new(10), Instant::now());
        assert!(debts.add(&key("alice"), 2, PERIOD, now) && debts.add(&key("alice"), 3, PERIOD, now));
        assert_eq!(debts.take(b"bob", now), None);
        assert_eq!(debts.take(b"alice", now).map(|debt| debt.amount), Some(5));
        assert_eq!(debts.take(b"alice", now), None);
        assert!(debts.is_empty());
    }

    #[test]
    fn void_debt_is_dropped() {
        let (debts, now) = (Debts::new(10), Instant::now());
        debts.add(&key("alice"), 2, PERIOD, now);
        assert_eq!(debts.take(b"alice", now + PERIOD), None);
        assert!(debts.is_empty());
    }

    #[test]
    fn refunds_reduce_the_debt() {
        let (debts, now) = (Debts::new(10), Instant::now());
        debts.add(&key("alice"), 2, PERIOD, now);
        assert_eq!((debts.reduce(b"alice", 1), debts.reduce(b"bob", 1)), (1, 0));
        assert_eq!(debts.take(b"alice", now).map(|debt| debt.amount), Some(1));
        debts.add(&key("alice"), 2, PERIOD, now);
        assert_eq!(debts.reduce(b"alice", 9), 2);
        assert_eq!(debts.take(b"alice", now), None);
    }

    #[test]
    fn pending_returns_the_number_and_the_oldest_age() {
        let (debts, now) = (Debts::new(10), Instant::now());
        assert_eq!(debts.pending(now), (0, Duration::ZERO));
        debts.add(&key("alice"), 1, PERIOD * 10, now);
        debts.add(&key("bob"), 1, PERIOD * 2, now + PERIOD);
        debts.add(&key("alice"), 1, PERIOD * 10, now + PERIOD);
        assert_eq!(debts.pending(now + PERIOD * 2), (2, PERIOD * 2));
        // A debt that is put back keeps its age.
        let taken = debts.take(b"alice", now + PERIOD * 2).unwrap();
        assert_eq!(debts.pending(now + PERIOD * 2), (1, PERIOD));
        debts.put(&key("alice"), taken, now + PERIOD * 2);
        assert_eq!(debts.pending(now + PERIOD * 4), (1, PERIOD * 4));
        debts.reduce(b"alice", 2);
        assert_eq!(debts.pending(now + PERIOD * 4), (0, Duration::ZERO));
        assert!(debts.is_empty());
    }

    #[test]
    fn table_is_bounded_and_void_debts_are_replaced() {
        let (debts, now) = (Debts::new(2), Instant::now());
        assert!(debts.add(&key("a"), 1, PERIOD, now) && debts.add(&key("b"), 1, PERIOD * 3, now));
        assert!(!debts.add(&key("c"), 1, PERIOD, now));
        assert!(debts.add(&key("a"), 1, PERIOD, now));
        assert!(debts.add(&key("c"), 1, PERIOD, now + PERIOD));
        assert_eq!(debts.take(b"b", now + PERIOD).map(|debt| debt.amount), Some(1));
    }

    #[test]
    fn a_full_table_is_scanned_at_most_ten_times_a_second() {
        let (debts, now) = (Debts::new(100), Instant::now());
        (0..100).for_each(|at| assert!(debts.add(&key(&at.to_string()), 1, PERIOD, now)));
        for at in 0..100_000 {
            // A thousand in each millisecond.
            let now = now + Duration::from_micros(at);
            assert!(!debts.add(&key(&format!("new {at}")), 1, PERIOD, now));
        }
        assert_eq!(debts.table().scans, 1);
        // Void debts are removed at most a tenth of a second later.
        let later = now + PERIOD + SCAN_INTERVAL;
        assert!(debts.add(&key("later"), 1, PERIOD, later));
        assert_eq!((debts.table().scans, debts.count()), (2, 1));
    }
}
