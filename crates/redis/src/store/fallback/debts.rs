//! What was let pass while nobody counted it, to be charged once the counters are back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The least time between two scans of a full table. A scan takes a millisecond or two.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// The debts of this instance, by the names of keys. Bounded: what does not
/// find room is not charged later. An entry takes about 60 bytes beside the name
/// of its key, and the table up to twice as much as its entries.
pub(crate) struct Debts {
    table: Mutex<Table>,
    /// How many there are, for the usual case that there are none.
    count: AtomicUsize,
    most: usize,
}

#[derive(Default)]
struct Table {
    by_key: HashMap<Arc<[u8]>, Debt>,
    /// When the next scan for void debts may run. In an outage every request may bring a new key, and must not pay for
    /// a scan of all the others.
    scan_at: Option<Instant>,
    #[cfg(test)]
    scans: u32,
}

impl Table {
    /// Removes void debts from a full table, unless a scan ran just now.
    fn make_room(&mut self, now: Instant) {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) amount: u64,
    /// When the first part of it was let pass.
    pub(crate) since: Instant,
    /// By then the counters would have forgotten it themselves.
    pub(crate) void_at: Instant,
}

impl Debts {
    pub(crate) fn new(most: usize) -> Debts {
        Debts { table: Mutex::default(), count: AtomicUsize::new(0), most }
    }

    /// Something was let pass that its key's counter would have held for `lasts`. `false` if there is no room for it.
    pub(crate) fn add(&self, key: &Arc<[u8]>, amount: u64, lasts: Duration, now: Instant) -> bool {
        self.put(key, Debt { amount, since: now, void_at: now + lasts }, now)
    }

    /// Puts back what was taken and not charged.
    pub(crate) fn put(&self, key: &Arc<[u8]>, debt: Debt, now: Instant) -> bool {
        let mut table = self.table();
        if table.by_key.len() >= self.most && !table.by_key.contains_key(key) {
            table.make_room(now);
        }
        let Table { by_key, .. } = &mut *table;
        let count = by_key.len();
        let is_kept = match by_key.get_mut(key) {
            Some(known) => {
                known.amount = known.amount.saturating_add(debt.amount);
                known.since = known.since.min(debt.since);
                known.void_at = known.void_at.max(debt.void_at);
                true
            }
            None if count < self.most => by_key.insert(Arc::clone(key), debt).is_none(),
            None => false,
        };
        self.count.store(by_key.len(), Ordering::Relaxed);
        is_kept
    }

    /// Whether no more than half of the room is taken.
    pub(crate) fn has_half_its_room(&self) -> bool {
        self.count.load(Ordering::Relaxed) <= self.most / 2
    }

    /// Takes a key's debt in order to charge it: who takes it, charges it once.
    pub(crate) fn take(&self, key: &[u8], now: Instant) -> Option<Debt> {
        if self.is_empty() {
            return None;
        }
        let by_key = &mut self.table().by_key;
        let debt = by_key.remove(key);
        self.count.store(by_key.len(), Ordering::Relaxed);
        debt.filter(|debt| now < debt.void_at && debt.amount > 0)
    }

    /// What was let pass was given back. Returns how much of it was owed.
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

    /// How many keys owe something, and for how long the first of them has. What is void is forgotten.
    pub(crate) fn standing(&self, now: Instant) -> (usize, Duration) {
        if self.is_empty() {
            return (0, Duration::ZERO);
        }
        let by_key = &mut self.table().by_key;
        by_key.retain(|_, debt| now < debt.void_at && debt.amount > 0);
        self.count.store(by_key.len(), Ordering::Relaxed);
        let oldest = by_key.values().map(|debt| debt.since).min();
        (by_key.len(), oldest.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)))
    }

    /// How many keys owe something, or did until it was void.
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
    fn what_time_has_settled_is_dropped() {
        let (debts, now) = (Debts::new(10), Instant::now());
        debts.add(&key("alice"), 2, PERIOD, now);
        assert_eq!(debts.take(b"alice", now + PERIOD), None);
        assert!(debts.is_empty());
    }

    #[test]
    fn what_is_given_back_is_not_owed() {
        let (debts, now) = (Debts::new(10), Instant::now());
        debts.add(&key("alice"), 2, PERIOD, now);
        assert_eq!((debts.reduce(b"alice", 1), debts.reduce(b"bob", 1)), (1, 0));
        assert_eq!(debts.take(b"alice", now).map(|debt| debt.amount), Some(1));
        debts.add(&key("alice"), 2, PERIOD, now);
        assert_eq!(debts.reduce(b"alice", 9), 2);
        assert_eq!(debts.take(b"alice", now), None);
    }

    #[test]
    fn the_oldest_debt_tells_how_far_behind_the_counters_are() {
        let (debts, now) = (Debts::new(10), Instant::now());
        assert_eq!(debts.standing(now), (0, Duration::ZERO));
        debts.add(&key("alice"), 1, PERIOD * 10, now);
        debts.add(&key("bob"), 1, PERIOD * 2, now + PERIOD);
        debts.add(&key("alice"), 1, PERIOD * 10, now + PERIOD);
        assert_eq!(debts.standing(now + PERIOD * 2), (2, PERIOD * 2));
        // What was taken and not charged is as old as it was.
        let taken = debts.take(b"alice", now + PERIOD * 2).unwrap();
        assert_eq!(debts.standing(now + PERIOD * 2), (1, PERIOD));
        debts.put(&key("alice"), taken, now + PERIOD * 2);
        assert_eq!(debts.standing(now + PERIOD * 4), (1, PERIOD * 4));
        debts.reduce(b"alice", 2);
        assert_eq!(debts.standing(now + PERIOD * 4), (0, Duration::ZERO));
        assert!(debts.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_what_is_void_makes_room() {
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
            // A thousand a millisecond.
            let now = now + Duration::from_micros(at);
            assert!(!debts.add(&key(&format!("new {at}")), 1, PERIOD, now));
        }
        assert_eq!(debts.table().scans, 1);
        // What is void makes room no later than a tenth of a second after.
        let later = now + PERIOD + SCAN_INTERVAL;
        assert!(debts.add(&key("later"), 1, PERIOD, later));
        assert_eq!((debts.table().scans, debts.count()), (2, 1));
    }
}
