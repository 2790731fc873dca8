//! Ends the wait of callers whose deadlines have passed.
//!
//! All requests have the same time, so their deadlines come in the order of their batches. One queue of batches and one
//! timer for all of them replace a timer for each caller. The timer runs only while a batch is in the queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::{Instant, sleep_until};

use super::{Batch, Expired};
use crate::store::Inner;
use crate::transport::Cause;

/// Batches that are finished are dropped from the queue when it is twice as long as what was left the last time, and
/// not below this length.
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
    /// The runtime of the store has been shut down: there will be no timer any more.
    Ended,
}

impl Queue {
    /// Adds a batch behind all that are due earlier.
    fn push(&mut self, deadline: Instant, batch: Arc<Batch>) {
        while self.batches.pop_front_if(|(_, batch)| batch.is_finished()).is_some() {}
        if self.batches.len() >= self.compact_at.max(COMPACT_AT) {
            // Behind a batch that is not answered, others are.
            self.batches.retain(|(_, batch)| !batch.is_finished());
            self.compact_at = self.batches.len() * 2;
        }
        // Callers on several threads may come in another order than their times.
        if self.batches.back().is_some_and(|(last, _)| *last > deadline) {
            let at = self.batches.partition_point(|(known, _)| *known <= deadline);
            self.batches.insert(at, (deadline, batch));
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
    /// Watches the deadlines of a batch. The first is given; later ones are found when that has passed.
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

    /// Ends the waits that have lasted until now, or all of them. Returns the next deadline; the timer ends where there
    /// is none.
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
            match batch.watch.get() {
                // Also if others of the batch have a little more time: it took too long.
                Some(watch) => self.call_failed(watch, Cause::Timeout, now),
                None => (0..count).for_each(|_| self.counters.failed(Cause::Timeout)),
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
    /// Whether it has ended by itself.
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
    /// A timer that is dropped before it has ended was dropped with its runtime. No caller may wait for ever then.
    fn drop(&mut self) {
        if !self.is_done
            && let Some(store) = self.store.upgrade()
        {
            store.deadlines.queue().timer = TimerState::Ended;
            store.expire_batches(None);
        }
    }
}
