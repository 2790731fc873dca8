//! Joins equal requests into batches: requests that arrive while a call for an equal request is in flight wait briefly,
//! and then share one call.
//!
//! They wait until that call returns, and at most for a small part of their deadline ([`Coalescer::new`]): on a distant
//! server a call takes most of the deadline, and a request that waited for another's call would have no time left for
//! its own. So several calls of one group may be in flight.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::RandomState;
use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use super::request::{Charges, SlotRequest, hash};
use super::{Batch, BatchSize};
use crate::transport::Slot;

const SHARDS: usize = 16;

/// The maximum number of requests in a batch. A script blocks all other calls of its server while it runs.
const MAX_BATCH: usize = 1_000;

pub(in crate::store) struct Coalescer {
    /// Groups by their hashes.
    shards: Vec<Mutex<Groups>>,
    hasher: RandomState,
    /// The maximum time that a request waits for the call of another.
    max_wait: Duration,
    group_ids: AtomicU64,
}

type Groups = HashMap<u64, SmallVec<[Group; 1]>, RandomState>;

/// Equal requests. A group exists while one of its calls is in flight.
struct Group {
    /// Distinguishes the group from earlier groups of the same hash.
    id: u64,
    /// The first batch. All batches of the group have an equal request.
    first: Arc<Batch>,
    /// The batches in flight, oldest first.
    in_flight: SmallVec<[InFlight; 2]>,
    /// The time at which the last batch was sent.
    sent_at: Instant,
    /// The number of requests in the last batch sent: the initial capacity of the next one.
    last_size: u32,
    /// The waiting batches. Only the last one accepts more requests.
    waiting: SmallVec<[Arc<Batch>; 1]>,
    /// Whether there is a timer for the waiting batches.
    has_timer: bool,
}

struct InFlight {
    batch: Arc<Batch>,
    /// The latest deadline of its requests. The call is overdue from then on.
    deadline: Instant,
}

/// A request that has joined a batch.
pub(super) struct Joined {
    pub(super) batch: Arc<Batch>,
    /// The index of its entry in the batch.
    pub(super) index: u32,
    pub(super) step: JoinStep,
}

/// The next step after a request has joined.
pub(super) enum JoinStep {
    Send(DueBatches),
    Wait {
        /// Set for the first request that waits: it must start this timer.
        timer: Option<BatchTimer>,
    },
}

/// The batches to send now, and the calls that are overdue.
pub(super) struct DueBatches {
    pub(super) batches: SmallVec<[(Arc<Batch>, BatchSize); 1]>,
    pub(super) overdue: SmallVec<[Arc<Batch>; 1]>,
}

/// The timer after which the waiting batches of a group are sent.
pub(super) struct BatchTimer {
    hash: u64,
    group_id: u64,
    pub(super) due: Instant,
}

impl Coalescer {
    /// Creates a coalescer. Requests wait for at most a twentieth of the deadline: joining costs no more than that, and
    /// at most about twenty calls of a group are in flight.
    pub(in crate::store) fn new(deadline: Duration) -> Coalescer {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (hasher, group_ids) = (RandomState::default(), AtomicU64::new(0));
        Coalescer { shards, hasher, max_wait: deadline / 20, group_ids }
    }

    /// Adds a request to a batch, as an entry that wakes the caller.
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
        let is_same = |group: &&mut Group| group.first.request.is_same(slot, charges);
        let known = groups.get_mut(&hash).and_then(|groups| groups.iter_mut().find(is_same));
        let Some(group) = known else {
            // Key names are built without the lock. An equal request that arrives meanwhile gets its own call.
            drop(groups);
            let batch = Batch::single(SlotRequest::new(slot, charges), Some(hash), deadline, waker);
            let group = Group {
                id: self.group_ids.fetch_add(1, Ordering::Relaxed),
                first: Arc::clone(&batch),
                in_flight: smallvec![InFlight { batch: Arc::clone(&batch), deadline }],
                sent_at: now,
                last_size: 1,
                waiting: SmallVec::new(),
                has_timer: false,
            };
            self.groups(hash).entry(hash).or_default().push(group);
            return Joined { step: JoinStep::Send(DueBatches::single(&batch, deadline)), batch, index: 0 };
        };
        let (batch, index) = group.join(hash, deadline, waker);
        let due = group.sent_at + self.max_wait;
        if due <= now {
            return Joined { batch, index, step: JoinStep::Send(group.take_due(now)) };
        }
        let is_first = !std::mem::replace(&mut group.has_timer, true);
        let timer = is_first.then_some(BatchTimer { hash, group_id: group.id, due });
        Joined { batch, index, step: JoinStep::Wait { timer } }
    }

    /// Removes a finished call. If it was the only one in flight, returns the waiting batches.
    pub(super) fn finish_call(&self, batch: &Arc<Batch>, now: Instant) -> Option<DueBatches> {
        let hash = batch.group?;
        let has_batch = |group: &&mut Group| group.in_flight.iter().any(|sent| Arc::ptr_eq(&sent.batch, batch));
        let mut groups = self.groups(hash);
        let group = groups.get_mut(&hash)?.iter_mut().find(has_batch)?;
        group.in_flight.retain(|sent| !Arc::ptr_eq(&sent.batch, batch));
        if !group.in_flight.is_empty() {
            return None;
        }
        let (id, due) = (group.id, group.take_due(now));
        remove_if_idle(&mut groups, hash, id);
        Some(due)
    }

    /// Returns the waiting batches if they are due, or else when to check again.
    pub(super) fn on_timer(&self, timer: &BatchTimer, now: Instant) -> (Option<DueBatches>, Option<Instant>) {
        let mut groups = self.groups(timer.hash);
        let known = groups.get_mut(&timer.hash).into_iter().flatten().find(|group| group.id == timer.group_id);
        let Some(group) = known else { return (None, None) };
        let due = group.sent_at + self.max_wait;
        if due > now && !group.waiting.is_empty() {
            return (None, Some(due));
        }
        group.has_timer = false;
        let due = group.take_due(now);
        remove_if_idle(&mut groups, timer.hash, timer.group_id);
        (Some(due), None)
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
        let batch = Batch::with_capacity(self.first.request.for_another_call(), hash, self.last_size as usize);
        let index = batch.join(deadline, waker, MAX_BATCH).unwrap_or(0);
        self.waiting.push(Arc::clone(&batch));
        (batch, index)
    }

    /// Takes all waiting batches. Overdue calls no longer count as in flight.
    fn take_due(&mut self, now: Instant) -> DueBatches {
        let mut due = DueBatches { batches: SmallVec::new(), overdue: SmallVec::new() };
        self.in_flight.retain(|sent| {
            let is_overdue = sent.deadline <= now;
            if is_overdue {
                due.overdue.push(Arc::clone(&sent.batch));
            }
            !is_overdue
        });
        for batch in self.waiting.drain(..) {
            let Some(size) = batch.seal() else { continue };
            self.in_flight.push(InFlight { batch: Arc::clone(&batch), deadline: size.deadline });
            (self.sent_at, self.last_size) = (now, size.times);
            due.batches.push((batch, size));
        }
        due
    }
}

impl DueBatches {
    /// Returns a new batch of one request.
    pub(super) fn single(batch: &Arc<Batch>, deadline: Instant) -> DueBatches {
        let size = BatchSize { times: 1, deadline };
        DueBatches { batches: smallvec![(Arc::clone(batch), size)], overdue: SmallVec::new() }
    }
}

fn remove_if_idle(groups: &mut Groups, hash: u64, id: u64) {
    let Some(same_hash) = groups.get_mut(&hash) else { return };
    same_hash.retain(|group| group.id != id || !group.in_flight.is_empty());
    if same_hash.is_empty() {
        groups.remove(&hash);
    }
}
