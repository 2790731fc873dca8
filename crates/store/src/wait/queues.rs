use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tollgate_core::{Bucket, Charged};

const SHARDS: usize = 64;

/// The callers that wait for a reservation, by key, in the order of departure.
///
/// A key has a queue only while callers wait for it. The reservation itself is in the key's bucket, where every check
/// sees it; this queue exists so that the waiters after a cancelled reservation can depart sooner.
pub(crate) struct WaitQueues {
    shards: Box<[Mutex<HashMap<u64, WaitQueue>>]>,
    next_id: AtomicU64,
}

#[derive(Default)]
pub(crate) struct WaitQueue {
    waiters: VecDeque<Waiter>,
}

pub(crate) struct Waiter {
    pub(crate) id: u64,
    pub(crate) charged: Charged,
    pub(crate) departs_at: u64,
    waker: Option<Waker>,
}

/// The queue of one key, locked. It is removed with its last waiter.
pub(crate) struct LockedWaitQueue<'a> {
    shard: MutexGuard<'a, HashMap<u64, WaitQueue>>,
    key: u64,
}

impl WaitQueues {
    pub(crate) fn new() -> WaitQueues {
        WaitQueues { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), next_id: AtomicU64::new(0) }
    }

    pub(crate) fn lock(&self, key: u64) -> LockedWaitQueue<'_> {
        let shard = &self.shards[key as usize % SHARDS];
        LockedWaitQueue { shard: shard.lock().unwrap_or_else(PoisonError::into_inner), key }
    }

    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

impl LockedWaitQueue<'_> {
    fn queue(&self) -> Option<&WaitQueue> {
        self.shard.get(&self.key)
    }

    /// Returns the number of waiters that have not departed at `now`.
    pub(crate) fn waiting_at(&self, now: u64) -> usize {
        self.queue().map_or(0, |queue| queue.waiters.iter().filter(|waiting| waiting.departs_at > now).count())
    }

    pub(crate) fn push(&mut self, id: u64, charged: Charged, departs_at: u64) {
        let queue = self.shard.entry(self.key).or_default();
        queue.waiters.push_back(Waiter { id, charged, departs_at, waker: None });
    }

    /// Returns the reservation of a waiter and its departure. `waker` is woken when it changes.
    pub(crate) fn reservation(&mut self, id: u64, waker: &Waker) -> Option<(Charged, u64)> {
        let queue = self.shard.get_mut(&self.key)?;
        let waiting = queue.waiters.iter_mut().find(|waiting| waiting.id == id)?;
        waiting.waker = Some(waker.clone());
        Some((waiting.charged, waiting.departs_at))
    }

    /// Returns the last reservation in the queue.
    pub(crate) fn last(&self) -> Option<Charged> {
        self.queue()?.waiters.back().map(|waiting| waiting.charged)
    }

    /// Removes a waiter from the queue.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Waiter> {
        let queue = self.shard.get_mut(&self.key)?;
        let index = queue.waiters.iter().position(|waiting| waiting.id == id)?;
        let removed = queue.waiters.remove(index);
        if queue.waiters.is_empty() {
            self.shard.remove(&self.key);
        }
        removed
    }

    /// Advances the reservations of all waiters that depart after `withdrawn`, by its cost. Returns the wakers to wake
    /// once the queue is unlocked, because the woken tasks may lock it at once.
    pub(crate) fn advance_after(&mut self, withdrawn: &Waiter, bucket: &Bucket) -> Vec<Waker> {
        let Some(queue) = self.shard.get_mut(&self.key) else { return Vec::new() };
        let mut woken = Vec::new();
        for waiting in queue.waiters.iter_mut().filter(|waiting| waiting.id > withdrawn.id) {
            waiting.charged = bucket.advance_reservation(&waiting.charged, withdrawn.charged.cost);
            waiting.departs_at = bucket.departs_at(&waiting.charged);
            woken.extend(waiting.waker.take());
        }
        woken
    }
}
