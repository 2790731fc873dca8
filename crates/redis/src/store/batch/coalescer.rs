//! Which requests travel in one call: requests alike that come while a call is in flight wait for a moment, and then
//! travel together.
//!
//! They wait until it is back, and no longer than a small part of their time ([`Coalescer::new`]): on a server that is
//! far away a call takes most of the deadline, and a request that waited for another's would have no time left for its
//! own. So several calls of one group may be in flight.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::RandomState;
use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use super::request::{Charges, SlotRequest, hash};
use super::{Batch, Boarded};
use crate::transport::Slot;

const SHARDS: usize = 16;

/// A script holds up all other calls of its server, so no more than this travel together.
const MAX_BATCH: usize = 1_000;

pub(in crate::store) struct Coalescer {
    /// Groups by their hashes.
    shards: Vec<Mutex<Groups>>,
    hasher: RandomState,
    /// How long a request waits for another's call at most.
    max_wait: Duration,
    group_ids: AtomicU64,
}

type Groups = HashMap<u64, SmallVec<[Group; 1]>, RandomState>;

/// Requests alike. A group exists while one of its calls is in flight.
struct Group {
    /// Tells it from those that were there before.
    id: u64,
    /// Its first batch: what all of them ask.
    first: Arc<Batch>,
    /// The batches in flight, oldest first.
    in_flight: SmallVec<[InFlight; 2]>,
    /// When the last of them was sent.
    sent_at: Instant,
    /// The number of requests in it: the next one may be as large.
    last_size: u32,
    /// The batches that wait. Only the last has room.
    waiting: SmallVec<[Arc<Batch>; 1]>,
    /// Whether there is a timer for those that wait.
    is_timed: bool,
}

struct InFlight {
    batch: Arc<Batch>,
    ends: Instant,
}

/// A request that has joined a batch.
pub(super) struct Joined {
    pub(super) batch: Arc<Batch>,
    /// Which of the batch's entries it is.
    pub(super) index: u32,
    pub(super) step: Step,
}

/// What follows from it that a request has joined.
pub(super) enum Step {
    Departs(Departure),
    Waits {
        /// The first that waits must start a timer.
        timer: Option<Timer>,
    },
}

/// All batches to be sent now, and calls that are overdue.
pub(super) struct Departure {
    pub(super) batches: SmallVec<[(Arc<Batch>, Boarded); 1]>,
    pub(super) overdue: SmallVec<[Arc<Batch>; 1]>,
}

/// When the batches that wait in a group are sent at the latest.
pub(super) struct Timer {
    hash: u64,
    group_id: u64,
    pub(super) due: Instant,
}

impl Coalescer {
    /// Requests wait for another's call for a twentieth of the time that they have: that much of a deadline is lost to
    /// joining at most, and at most about twenty calls of a group are in flight.
    pub(in crate::store) fn new(deadline: Duration) -> Coalescer {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (hasher, group_ids) = (RandomState::default(), AtomicU64::new(0));
        Coalescer { shards, hasher, max_wait: deadline / 20, group_ids }
    }

    /// The caller has an entry of a batch from now on, which wakes it.
    pub(super) fn join(
        &self,
        slot: Slot,
        charges: &Charges<'_>,
        now: Instant,
        deadline: Instant,
        waker: &Waker,
    ) -> Joined {
        let hash = hash(charges, &self.hasher);
        let mut groups = self.groups(hash);
        let is_alike = |group: &&mut Group| group.first.request.is_alike(slot, charges);
        let known = groups.get_mut(&hash).and_then(|groups| groups.iter_mut().find(is_alike));
        let Some(group) = known else {
            // Names are made without the lock. A request alike that comes meanwhile has a call of its own.
            drop(groups);
            let batch = Batch::alone(SlotRequest::new(slot, charges), Some(hash), deadline, waker);
            let group = Group {
                id: self.group_ids.fetch_add(1, Ordering::Relaxed),
                first: Arc::clone(&batch),
                in_flight: smallvec![InFlight { batch: Arc::clone(&batch), ends: deadline }],
                sent_at: now,
                last_size: 1,
                waiting: SmallVec::new(),
                is_timed: false,
            };
            self.groups(hash).entry(hash).or_default().push(group);
            return Joined { step: Step::Departs(Departure::alone(&batch, deadline)), batch, index: 0 };
        };
        let (batch, index) = group.join(hash, deadline, waker);
        let due = group.sent_at + self.max_wait;
        if due <= now {
            return Joined { batch, index, step: Step::Departs(group.depart(now)) };
        }
        let is_first = !std::mem::replace(&mut group.is_timed, true);
        let timer = is_first.then_some(Timer { hash, group_id: group.id, due });
        Joined { batch, index, step: Step::Waits { timer } }
    }

    /// A call is over. If it was the only one in flight, those that wait are sent.
    pub(super) fn arrived(&self, batch: &Arc<Batch>, now: Instant) -> Option<Departure> {
        let hash = batch.group?;
        let has_batch = |group: &&mut Group| group.in_flight.iter().any(|sent| Arc::ptr_eq(&sent.batch, batch));
        let mut groups = self.groups(hash);
        let group = groups.get_mut(&hash)?.iter_mut().find(has_batch)?;
        group.in_flight.retain(|sent| !Arc::ptr_eq(&sent.batch, batch));
        if !group.in_flight.is_empty() {
            return None;
        }
        let (id, departure) = (group.id, group.depart(now));
        remove_if_idle(&mut groups, hash, id);
        Some(departure)
    }

    /// Some may have waited long enough. Returns what is sent, and when to look again.
    pub(super) fn due(&self, timer: &Timer, now: Instant) -> (Option<Departure>, Option<Instant>) {
        let mut groups = self.groups(timer.hash);
        let known = groups.get_mut(&timer.hash).into_iter().flatten().find(|group| group.id == timer.group_id);
        let Some(group) = known else { return (None, None) };
        let due = group.sent_at + self.max_wait;
        if due > now && !group.waiting.is_empty() {
            return (None, Some(due));
        }
        group.is_timed = false;
        let departure = group.depart(now);
        remove_if_idle(&mut groups, timer.hash, timer.group_id);
        (Some(departure), None)
    }

    fn groups(&self, hash: u64) -> MutexGuard<'_, Groups> {
        self.shards[hash as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group {
    fn join(&mut self, hash: u64, deadline: Instant, waker: &Waker) -> (Arc<Batch>, u32) {
        if let Some(batch) = self.waiting.last()
            && let Some(index) = batch.join(deadline, waker, MAX_BATCH)
        {
            return (Arc::clone(batch), index);
        }
        let batch = Batch::with_capacity(self.first.request.again(), hash, self.last_size as usize);
        let index = batch.join(deadline, waker, MAX_BATCH).unwrap_or(0);
        self.waiting.push(Arc::clone(&batch));
        (batch, index)
    }

    /// All batches that wait are sent. Calls that are overdue do not count as in flight any more.
    fn depart(&mut self, now: Instant) -> Departure {
        let mut departure = Departure { batches: SmallVec::new(), overdue: SmallVec::new() };
        self.in_flight.retain(|sent| {
            let is_over = sent.ends <= now;
            if is_over {
                departure.overdue.push(Arc::clone(&sent.batch));
            }
            !is_over
        });
        for batch in self.waiting.drain(..) {
            let Some(boarded) = batch.board() else { continue };
            self.in_flight.push(InFlight { batch: Arc::clone(&batch), ends: boarded.deadline });
            (self.sent_at, self.last_size) = (now, boarded.times);
            departure.batches.push((batch, boarded));
        }
        departure
    }
}

impl Departure {
    /// A new batch of one.
    pub(super) fn alone(batch: &Arc<Batch>, deadline: Instant) -> Departure {
        let boarded = Boarded { times: 1, deadline };
        Departure { batches: smallvec![(Arc::clone(batch), boarded)], overdue: SmallVec::new() }
    }
}

fn remove_if_idle(groups: &mut Groups, hash: u64, id: u64) {
    let Some(alike) = groups.get_mut(&hash) else { return };
    alike.retain(|group| group.id != id || !group.in_flight.is_empty());
    if alike.is_empty() {
        groups.remove(&hash);
    }
}
