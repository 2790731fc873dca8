use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tollgate_core::{Bucket, Charged};

const SHARDS: usize = 64;

/// Who waits for a promised place, by key, in the order of departure.
///
/// A key is here only while somebody waits for it. The promise itself stands in
/// the key's bucket, where every check sees it; this list is what lets those
/// behind a cancelled one move up.
pub(crate) struct WaitLists {
    shards: Box<[Mutex<HashMap<u64, Line>>]>,
    next_id: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Line {
    waiters: VecDeque<Waiting>,
}

pub(crate) struct Waiting {
    pub(crate) id: u64,
    pub(crate) charged: Charged,
    pub(crate) departs_at: u64,
    waker: Option<Waker>,
}

/// The line of one key, locked. Goes away with its last waiter.
pub(crate) struct LockedLine<'a> {
    shard: MutexGuard<'a, HashMap<u64, Line>>,
    key: u64,
}

impl WaitLists {
    pub(crate) fn new() -> WaitLists {
        WaitLists { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), next_id: AtomicU64::new(0) }
    }

    pub(crate) fn lock(&self, key: u64) -> LockedLine<'_> {
        let shard = &self.shards[key as usize % SHARDS];
        LockedLine { shard: shard.lock().unwrap_or_else(PoisonError::into_inner), key }
    }

    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

impl LockedLine<'_> {
    fn line(&self) -> Option<&Line> {
        self.shard.get(&self.key)
    }

    /// How many wait whose time has not come.
    pub(crate) fn waiting_at(&self, now: u64) -> usize {
        self.line().map_or(0, |line| line.waiters.iter().filter(|waiting| waiting.departs_at > now).count())
    }

    pub(crate) fn push(&mut self, id: u64, charged: Charged, departs_at: u64) {
        let line = self.shard.entry(self.key).or_default();
        line.waiters.push_back(Waiting { id, charged, departs_at, waker: None });
    }

    /// The promise of a waiter, which is to be woken when it changes.
    pub(crate) fn promise(&mut self, id: u64, waker: &Waker) -> Option<(Charged, u64)> {
        let line = self.shard.get_mut(&self.key)?;
        let waiting = line.waiters.iter_mut().find(|waiting| waiting.id == id)?;
        waiting.waker = Some(waker.clone());
        Some((waiting.charged, waiting.departs_at))
    }

    /// The last promise in the line.
    pub(crate) fn last(&self) -> Option<Charged> {
        self.line()?.waiters.back().map(|waiting| waiting.charged)
    }

    /// Takes a waiter out of the line.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Waiting> {
        let line = self.shard.get_mut(&self.key)?;
        let at = line.waiters.iter().position(|waiting| waiting.id == id)?;
        let removed = line.waiters.remove(at);
        if line.waiters.is_empty() {
            self.shard.remove(&self.key);
        }
        removed
    }

    /// Lets everybody who departs after `withdrawn` move up by its cost.
    /// Returns whom to wake, once the line is unlocked: they may look at it at once.
    pub(crate) fn move_up(&mut self, withdrawn: &Waiting, bucket: &Bucket) -> Vec<Waker> {
        let Some(line) = self.shard.get_mut(&self.key) else { return Vec::new() };
        let mut woken = Vec::new();
        for waiting in line.waiters.iter_mut().filter(|waiting| waiting.id > withdrawn.id) {
            waiting.charged = bucket.moved_up(&waiting.charged, withdrawn.charged.cost);
            waiting.departs_at = bucket.departs_at(&waiting.charged);
            woken.extend(waiting.waker.take());
        }
        woken
    }
}
