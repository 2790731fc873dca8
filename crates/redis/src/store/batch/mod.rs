//! Batches: equal requests share one call to the server and one answer, of which each caller takes its own part.

mod answer;
mod coalescer;
mod deadlines;
mod dispatch;
mod request;
mod waiter;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;

use crate::store::breaker::shards::TrackedCall;

pub(super) use answer::BatchAnswer;
pub(super) use coalescer::Coalescer;
pub(super) use deadlines::Deadlines;
pub(super) use request::{Charges, Positions, SlotPart, SlotRequest};
pub(super) use waiter::BatchWaiter;

/// Equal requests that share one call.
///
/// Each caller has an entry, and its waiter has the index of that entry. When the call is sent, the entries that still
/// wait are numbered in order; the answer has the outcome of each number.
#[derive(Debug)]
pub(super) struct Batch {
    request: SlotRequest,
    /// The hash of its group, if requests are joined.
    group: Option<u64>,
    /// The call as tracked by the breaker of its shard, once it is sent.
    tracked: OnceLock<TrackedCall>,
    /// `Some(None)` if the call failed.
    answer: OnceLock<Option<BatchAnswer>>,
    entries: Mutex<Entries>,
}

type Entries = SmallVec<[Entry; 1]>;

#[derive(Debug)]
struct Entry {
    deadline: Instant,
    state: EntryState,
    /// Its number among the requests of the call.
    number: Option<u32>,
}

#[derive(Debug)]
enum EntryState {
    Waiting(Waker),
    /// The answer has arrived, whether or not the caller has polled it.
    Answered,
    /// Its deadline passed before the answer.
    TimedOut,
    /// Its future was dropped before the answer.
    Dropped,
}

/// The number of requests in a call, and their deadline.
#[derive(Clone, Copy, Debug)]
struct BatchSize {
    times: u32,
    /// The latest of their deadlines.
    deadline: Instant,
}

/// The result of expiring the entries of a batch.
#[derive(Debug)]
struct Expired {
    count: u64,
    /// The next deadline of an entry that still waits.
    next: Option<Instant>,
}

impl Batch {
    /// Creates a batch of one request that is sent at once.
    fn single(request: SlotRequest, group: Option<u64>, deadline: Instant, waker: &Waker) -> Arc<Batch> {
        Batch::with(request, group, smallvec![Entry::new(deadline, waker, Some(0))])
    }

    /// Creates an empty batch with a capacity, which requests join before it is [sealed](Batch::seal).
    fn with_capacity(request: SlotRequest, group: u64, entries: usize) -> Arc<Batch> {
        Batch::with(request, Some(group), Entries::with_capacity(entries))
    }

    fn with(request: SlotRequest, group: Option<u64>, entries: Entries) -> Arc<Batch> {
        let entries = Mutex::new(entries);
        Arc::new(Batch { request, group, tracked: OnceLock::new(), answer: OnceLock::new(), entries })
    }

    /// Adds an entry, unless there are `most` already. Returns its index.
    fn join(&self, deadline: Instant, waker: &Waker, most: usize) -> Option<u32> {
        let mut entries = self.entries();
        let index = entries.len();
        (index < most).then(|| {
            entries.push(Entry::new(deadline, waker, None));
            index as u32
        })
    }

    /// Numbers the entries that still wait, so that the others are not charged at all. Returns `None` if there are
    /// none.
    fn seal(&self) -> Option<BatchSize> {
        let mut size: Option<BatchSize> = None;
        for entry in self.entries().iter_mut().filter(|entry| entry.is_waiting()) {
            let times = size.map_or(0, |size| size.times);
            entry.number = Some(times);
            let deadline = size.map_or(entry.deadline, |size| size.deadline.max(entry.deadline));
            size = Some(BatchSize { times: times + 1, deadline });
        }
        size
    }

    /// Sets the answer and wakes all waiting entries. Returns the numbers of the entries that were part of the call and
    /// do not wait any more.
    fn finish(&self, answer: Option<BatchAnswer>) -> SmallVec<[u32; 4]> {
        let (mut late, mut wakers): (SmallVec<[u32; 4]>, SmallVec<[Waker; 1]>) = Default::default();
        {
            let mut entries = self.entries();
            // A batch is sent once, so this is its only answer.
            let _ = self.answer.set(answer);
            wakers.reserve(entries.len());
            for entry in &mut *entries {
                match std::mem::replace(&mut entry.state, EntryState::Answered) {
                    EntryState::Waiting(waker) => wakers.push(waker),
                    gone => {
                        entry.state = gone;
                        late.extend(entry.number);
                    }
                }
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        late
    }

    /// Ends the wait of entries whose deadlines have passed.
    fn expire(&self, now: Instant) -> Expired {
        let mut expired = Expired { count: 0, next: None };
        let mut wakers: SmallVec<[Waker; 1]> = SmallVec::new();
        if self.is_finished() {
            return expired;
        }
        {
            let mut entries = self.entries();
            for entry in &mut *entries {
                if !entry.is_waiting() {
                    continue;
                }
                if entry.deadline > now {
                    expired.next = Some(expired.next.map_or(entry.deadline, |next| next.min(entry.deadline)));
                    continue;
                }
                if let EntryState::Waiting(waker) = std::mem::replace(&mut entry.state, EntryState::TimedOut) {
                    wakers.push(waker);
                }
                expired.count += 1;
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        expired
    }

    fn is_finished(&self) -> bool {
        self.answer.get().is_some()
    }

    /// Returns the number of an entry in the answer, or `None` if there is no answer for it.
    fn poll(&self, index: u32, cx: &Context<'_>) -> Poll<Option<u32>> {
        let mut entries = self.entries();
        let entry = &mut entries[index as usize];
        if let EntryState::Waiting(known) = &mut entry.state {
            known.clone_from(cx.waker());
            return Poll::Pending;
        }
        let is_answered = matches!(entry.state, EntryState::Answered) && self.answer().is_some();
        Poll::Ready(entry.number.filter(|_| is_answered))
    }

    /// Removes a caller that has given up. Returns its number if it was answered and has not polled the answer.
    fn leave(&self, index: u32) -> Option<u32> {
        let mut entries = self.entries();
        let entry = &mut entries[index as usize];
        match entry.state {
            EntryState::Answered => entry.number,
            EntryState::Waiting(_) => {
                entry.state = EntryState::Dropped;
                None
            }
            EntryState::TimedOut | EntryState::Dropped => None,
        }
    }

    /// Returns the answer, if there is one and the call did not fail.
    fn answer(&self) -> Option<&BatchAnswer> {
        self.answer.get()?.as_ref()
    }

    /// Reverses the numbers of the entries.
    #[cfg(test)]
    pub(super) fn reverse_numbers(&self, times: u32) {
        for number in self.entries().iter_mut().filter_map(|entry| entry.number.as_mut()) {
            *number = times - 1 - *number;
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(deadline: Instant, waker: &Waker, number: Option<u32>) -> Entry {
        Entry { deadline, state: EntryState::Waiting(waker.clone()), number }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.state, EntryState::Waiting(_))
    }
}
