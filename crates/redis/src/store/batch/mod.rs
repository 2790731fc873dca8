//! Requests alike share a batch: one call to the server, one deadline and one answer, of which each caller takes its
//! own part.

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

use crate::store::breaker::shards::Watch;

pub(super) use answer::BatchAnswer;
pub(super) use coalescer::Coalescer;
pub(super) use deadlines::Deadlines;
pub(super) use request::{Charges, Positions, SlotPart, SlotRequest};
pub(super) use waiter::Waiter;

/// Requests alike that one call asks for.
///
/// A caller that joins has an entry, and its waiter knows only which. The call counts the entries that still wait when
/// it is sent, in order; the answer says what became of each.
#[derive(Debug)]
pub(super) struct Batch {
    request: SlotRequest,
    /// The hash of the group that it belongs to, if requests join.
    group: Option<u64>,
    /// The call in its shard's breaker, once it is sent.
    watch: OnceLock<Watch>,
    /// `None` if there will be none.
    answer: OnceLock<Option<BatchAnswer>>,
    entries: Mutex<Entries>,
}

type Entries = SmallVec<[Entry; 1]>;

#[derive(Debug)]
struct Entry {
    deadline: Instant,
    state: EntryState,
    /// Its number among those that the call counts.
    number: Option<u32>,
}

#[derive(Debug)]
enum EntryState {
    Waiting(Waker),
    /// It counts for the answer, whether it has seen it or not.
    Answered,
    /// Its deadline passed before there was an answer.
    TimedOut,
    /// Its future was dropped before there was an answer.
    Dropped,
}

/// The callers that a call is sent for.
#[derive(Clone, Copy, Debug)]
struct Boarded {
    times: u32,
    /// The last of their deadlines.
    deadline: Instant,
}

/// What a look at the deadlines of a batch found.
#[derive(Debug)]
struct Expired {
    count: u64,
    /// The next deadline of an entry that still waits.
    next: Option<Instant>,
}

impl Batch {
    /// A batch of one that is sent as it is.
    fn alone(request: SlotRequest, group: Option<u64>, deadline: Instant, waker: &Waker) -> Arc<Batch> {
        Batch::with(request, group, smallvec![Entry::new(deadline, waker, Some(0))])
    }

    /// An empty batch with room for so many, which requests join before it is [boarded](Batch::board).
    fn with_capacity(request: SlotRequest, group: u64, entries: usize) -> Arc<Batch> {
        Batch::with(request, Some(group), Entries::with_capacity(entries))
    }

    fn with(request: SlotRequest, group: Option<u64>, entries: Entries) -> Arc<Batch> {
        let entries = Mutex::new(entries);
        Arc::new(Batch { request, group, watch: OnceLock::new(), answer: OnceLock::new(), entries })
    }

    /// Adds an entry, unless there are `most` already. Returns which it is.
    fn join(&self, deadline: Instant, waker: &Waker, most: usize) -> Option<u32> {
        let mut entries = self.entries();
        let index = entries.len();
        (index < most).then(|| {
            entries.push(Entry::new(deadline, waker, None));
            index as u32
        })
    }

    /// Numbers the entries that still wait: the others are not charged in the first place. `None` if there are none.
    fn board(&self) -> Option<Boarded> {
        let mut boarded: Option<Boarded> = None;
        for entry in self.entries().iter_mut().filter(|entry| entry.is_waiting()) {
            let times = boarded.map_or(0, |boarded| boarded.times);
            entry.number = Some(times);
            let deadline = boarded.map_or(entry.deadline, |boarded| boarded.deadline.max(entry.deadline));
            boarded = Some(Boarded { times: times + 1, deadline });
        }
        boarded
    }

    /// Gives all that wait their answer. Returns the numbers of the entries that the call counted and that do not wait
    /// any more.
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

    /// The number of an entry under which the answer tells of it, or nothing if there is no answer for it.
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

    /// A caller has given up. Returns its number if it was answered and has not seen it.
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

    /// The answer, if there is one and it is not a failure.
    fn answer(&self) -> Option<&BatchAnswer> {
        self.answer.get()?.as_ref()
    }

    /// Gives the first entry the last one's number, and so on.
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
