//! The tasks that wait for a concurrency permit, first in, first out for each key.
//!
//! A waiter stays in its queue until its attempt succeeds or it gives up; only the first of a queue attempts. A release
//! wakes the first waiter, and a waiter that leaves wakes the next. So a free permit never stays unnoticed, and a permit
//! that another request took meanwhile costs the first waiter one attempt and not its position.

use std::collections::{BTreeMap, HashMap};
use std::future::{Future, poll_fn};
use std::hash::{DefaultHasher, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The largest number of waiters of one limiter. Further ones are refused at once.
const MAX_WAITERS: usize = 65_536;

/// The queues of one limiter, by the hash of a limit's scope and a key. Two keys with one hash share a queue: their
/// waiters then attempt in turn, which is slower and otherwise harmless.
#[derive(Default)]
pub(super) struct PermitQueue {
    /// The number of waiters in all queues, so that a release without waiters takes no lock.
    len: AtomicUsize,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    next_number: u64,
    by_key: HashMap<u64, BTreeMap<u64, Arc<WaitingTask>>>,
}

/// A waiter's position in a queue. Dropping it leaves the queue.
pub(super) struct QueuePosition<'a> {
    queue: &'a PermitQueue,
    key: u64,
    number: u64,
    task: Arc<WaitingTask>,
}

#[derive(Default)]
struct WaitingTask {
    state: Mutex<TaskState>,
}

#[derive(Default)]
struct TaskState {
    is_woken: bool,
    waker: Option<Waker>,
}

/// Returns the hash that identifies the queue of a key.
pub(super) fn queue_key(scope: &str, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_usize(scope.len());
    hasher.write(scope.as_bytes());
    hasher.write(key);
    hasher.finish()
}

impl PermitQueue {
    /// Whether any task waits for any key.
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Ordering::SeqCst) == 0
    }

    /// Whether a task waits for this key.
    pub(super) fn has_waiters(&self, key: u64) -> bool {
        !self.is_empty() && self.queues().by_key.contains_key(&key)
    }

    /// Joins the queue of a key at its end; `None` if too many tasks wait.
    ///
    /// The caller attempts once more after joining: a permit may have been released before it joined.
    pub(super) fn join(&self, key: u64) -> Option<QueuePosition<'_>> {
        let task = Arc::new(WaitingTask::default());
        let number = {
            let mut queues = self.queues();
            if self.len.load(Ordering::Relaxed) >= MAX_WAITERS {
                return None;
            }
            let number = queues.next_number;
            queues.next_number += 1;
            queues.by_key.entry(key).or_default().insert(number, Arc::clone(&task));
            self.len.fetch_add(1, Ordering::SeqCst);
            number
        };
        // Pairs with the fence in `released`: either the release sees this waiter, or the waiter's next attempt sees
        // the released permit.
        fence(Ordering::SeqCst);
        Some(QueuePosition { queue: self, key, number, task })
    }

    /// Wakes the first waiter of each key, after permits of these keys were released.
    pub(super) fn released(&self, keys: impl IntoIterator<Item = u64>) {
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            keys.into_iter().for_each(|key| self.wake_first(key));
        }
    }

    /// Wakes the first waiter of every key, after a change that may have freed any permit.
    pub(super) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            let first = |queue: &BTreeMap<u64, Arc<WaitingTask>>| queue.first_key_value().map(|(_, task)| task.clone());
            let tasks: Vec<_> = self.queues().by_key.values().filter_map(first).collect();
            tasks.iter().for_each(|task| task.wake());
        }
    }

    fn wake_first(&self, key: u64) {
        let queues = self.queues();
        let first = queues.by_key.get(&key).and_then(|queue| queue.first_key_value());
        let first = first.map(|(_, task)| Arc::clone(task));
        drop(queues);
        if let Some(task) = first {
            task.wake();
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueuePosition<'_> {
    /// The key that it waits for.
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// Whether it is the first in its queue.
    pub(super) fn is_first(&self) -> bool {
        let queues = self.queue.queues();
        let first = queues.by_key.get(&self.key).and_then(|queue| queue.first_key_value());
        first.is_some_and(|(number, _)| *number == self.number)
    }

    /// Waits until it is woken or `sleep` has ended.
    pub(super) async fn wait(&self, sleep: impl Future<Output = ()>) {
        let mut sleep = pin!(sleep);
        poll_fn(|context| {
            if self.task.take_wake_up(context.waker()) {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        {
            let mut queues = self.queue.queues();
            if let Some(queue) = queues.by_key.get_mut(&self.key) {
                queue.remove(&self.number);
                if queue.is_empty() {
                    queues.by_key.remove(&self.key);
                }
            }
            self.queue.len.fetch_sub(1, Ordering::SeqCst);
        }
        // Several permits may be free: the next waiter finds out.
        self.queue.wake_first(self.key);
    }
}

impl WaitingTask {
    fn wake(&self) {
        let waker = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.is_woken = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns whether it was woken since the last call, or else keeps the waker.
    fn take_wake_up(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.is_woken) {
            return true;
        }
        state.waker = Some(waker.clone());
        false
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::task::Context;

    use super::*;

    fn is_woken(position: &QueuePosition<'_>) -> bool {
        pin!(position.wait(pending())).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn release_wakes_the_first_waiter_of_its_key_only() {
        let queue = PermitQueue::default();
        let (one, two, other) = (queue.join(1).unwrap(), queue.join(1).unwrap(), queue.join(2).unwrap());
        queue.released([1]);
        assert_eq!([&one, &two, &other].map(is_woken), [true, false, false]);
        assert_eq!([&one, &two, &other].map(QueuePosition::is_first), [true, false, true]);
    }

    #[test]
    fn waiter_that_leaves_wakes_the_next() {
        let queue = PermitQueue::default();
        let (one, two, three) = (queue.join(1).unwrap(), queue.join(1).unwrap(), queue.join(1).unwrap());
        drop(two);
        assert!(is_woken(&one) && !is_woken(&three), "the first is still the first");
        drop(one);
        assert!(three.is_first() && is_woken(&three));
        drop(three);
        assert!(queue.is_empty() && queue.queues().by_key.is_empty());
    }

    #[test]
    fn wake_all_wakes_the_first_waiter_of_every_key() {
        let queue = PermitQueue::default();
        let (one, two, other) = (queue.join(1).unwrap(), queue.join(1).unwrap(), queue.join(2).unwrap());
        queue.wake_all();
        assert_eq!([&one, &two, &other].map(is_woken), [true, false, true]);
    }

    #[test]
    fn number_of_waiters_is_bounded() {
        let queue = PermitQueue::default();
        let all: Vec<_> = (0..MAX_WAITERS as u64).map(|key| queue.join(key).unwrap()).collect();
        assert!(queue.join(0).is_none());
        drop(all);
        assert!(queue.join(0).is_some());
    }

    #[test]
    fn scope_and_key_are_told_apart() {
        assert_ne!(queue_key("a", b"bc"), queue_key("ab", b"c"));
        assert_eq!(queue_key("a", b"bc"), queue_key("a", b"bc"));
    }
}
