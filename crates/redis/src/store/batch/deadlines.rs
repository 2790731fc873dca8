//! Ends the wait of callers whose deadlines have passed.
//!
//! All requests have the same timeout, so their deadlines are in the order of their batches. One queue of batches and
//! one timer for all of them replace a timer for each caller. The timer runs only while a batch is in the queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::{Instant, sleep_until};

use super::{Batch, Expired};
use crate::store::Inner;
use crate::transport::Cause;

/// Finished batches are removed from the queue when it is twice as long as after the last removal, and at least this
/// long.
const COMPACT_AT: usize = 256;

/// Batches by the next deadline of their callers.
#[derive(Default)]
pub(in crate::store) struct Deadlines {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    batches: VecDeque<(Instant, Arc<Batch>)>,
    compact_at: usize,
    timer: TimerState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TimerState {
    #[default]
    Idle,
    Running,
    /// The runtime of the store has been shut down, so no timer can run any more.
    Ended,
}

impl Queue {
    /// Inserts a batch behind all batches that are due earlier.
    fn push(&mut self, deadline: Instant, batch: Arc<Batch>) {
        while self.batches.pop_front_if(|(_, batch)| batch.is_finished()).is_some() {}
        if self.batches.len() >= self.compact_at.max(COMPACT_AT) {
            // Behind an unanswered batch there may be finished ones.
            self.batches.retain(|(_, batch)| !batch.is_finished());
            self.compact_at = self.batches.len() * 2;
        }
        // Callers on several threads may arrive in another order than their deadlines.
        if self.batches.back().is_some_and(|(last, _)| *last > deadline) {
            let index = self.batches.partition_point(|(known, _)| *known <= deadline);
            self.batches.insert(index, (deadline, batch));
        } else {
            self.batches.push_back((deadline, batch));
        }
    }
}

impl Deadlines {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Adds a batch to the queue with its first deadline. Later deadlines are found when that has passed.
    pub(super) fn watch_deadlines(self: &Arc<Self>, batch: &Arc<Batch>, deadline: Instant) {
        let timer = {
            let mut queue = self.deadlines.queue();
            queue.push(deadline, Arc::clone(batch));
            let timer = queue.timer;
            if timer == TimerState::Idle {
                queue.timer = TimerState::Running;
            }
            timer
        };
        match timer {
            TimerState::Running => {}
            TimerState::Idle => {
                drop(self.runtime.spawn(DeadlineTimer { store: Arc::downgrade(self), is_done: false }.run()));
            }
            TimerState::Ended => drop(self.expire_batches(None)),
        }
    }

    /// Expires the entries whose deadlines have passed, or all of them. Returns the next deadline; the timer ends if
    /// there is none.
    fn expire_batches(self: &Arc<Self>, now: Option<Instant>) -> Option<Instant> {
        loop {
            let batch = {
                let mut queue = self.deadlines.queue();
                match queue.batches.front() {
                    Some((_, batch)) if batch.is_finished() => {}
                    Some((deadline, _)) if now.is_some_and(|now| *deadline > now) => return Some(*deadline),
                    Some(_) => {}
                    None => {
                        if queue.timer == TimerState::Running {
                            queue.timer = TimerState::Idle;
                        }
                        return None;
                    }
                }
                queue.batches.pop_front()
            };
            if let Some((deadline, batch)) = batch {
                self.expire(&batch, now.unwrap_or(deadline + self.settings.deadline));
            }
        }
    }

    fn expire(self: &Arc<Self>, batch: &Arc<Batch>, now: Instant) {
        let Expired { count, next } = batch.expire(now);
        if count > 0 {
            match batch.tracked.get() {
                // Even if other callers of the batch have a little more time, the call took too long.
                Some(tracked) => self.on_call_failed(tracked, Cause::Timeout, now),
                None => (0..count).for_each(|_| self.counters.count_failure(Cause::Timeout)),
            }
        }
        if let Some(next) = next {
            self.deadlines.queue().push(next, Arc::clone(batch));
        }
    }
}

/// The timer of a store's deadlines.
struct DeadlineTimer {
    store: Weak<Inner>,
    /// Whether it ended because the queue was empty.
    is_done: bool,
}

impl DeadlineTimer {
    async fn run(mut self) {
        while let Some(next) = self.store.upgrade().and_then(|store| store.expire_batches(Some(Instant::now()))) {
            sleep_until(next).await;
        }
        self.is_done = true;
    }
}

impl Drop for DeadlineTimer {
    /// A timer that is dropped before it has ended was dropped with its runtime. Its callers must not wait for ever.
    fn drop(&mut self) {
        if !self.is_done
            && let Some(store) = self.store.upgrade()
        {
            store.deadlines.queue().timer = TimerState::Ended;
            store.expire_batches(None);
        }
    }
}
