use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::transport::{CallError, Cause, Executed};
use crate::wire::protocol::command::ServerCommand;

/// The queue of commands to be sent over one connection.
///
/// Callers push from any thread. The task that owns the connection takes all waiting commands at once, and sends them
/// in one write.
pub(crate) struct CallQueue {
    inner: Mutex<Inner>,
    /// The maximum number of waiting and taken commands together.
    limit: usize,
    closed: Notify,
}

struct Inner {
    state: State,
    waiting: VecDeque<Box<dyn ServerCommand>>,
    /// The number of commands that the connection has taken and not completed.
    taken: usize,
    waker: Option<Waker>,
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The connection is being established; commands wait for it.
    Connecting,
    Up,
    /// There is no connection, for this cause. Commands fail immediately.
    Down(Cause),
    /// The queue is closed for good.
    Closed,
}

impl CallQueue {
    pub(crate) fn new(limit: usize) -> CallQueue {
        let inner = Inner { state: State::Connecting, waiting: VecDeque::new(), taken: 0, waker: None };
        CallQueue { inner: Mutex::new(inner), limit, closed: Notify::new() }
    }

    /// Adds a command, or fails it immediately.
    pub(crate) fn push(&self, command: Box<dyn ServerCommand>) {
        let (refused, waker) = {
            let mut inner = self.lock();
            let cause = match inner.state {
                State::Down(cause) => Some(cause),
                State::Closed => Some(Cause::Connection),
                _ if inner.waiting.len() + inner.taken >= self.limit => Some(Cause::Overloaded),
                _ => None,
            };
            match cause {
                Some(cause) => (Some((command, cause)), None),
                None => {
                    inner.waiting.push_back(command);
                    (None, inner.waker.take())
                }
            }
        };
        // Not under the lock: completing a command may push another one.
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some((command, cause)) = refused {
            command.complete(Err(CallError { cause, executed: Executed::No }));
        }
    }

    /// Appends all waiting commands to `ready`, and registers `waker` for the next one. `sent` is the number of commands
    /// that were taken before, are not in `ready` and are not completed. Returns whether the queue is still open.
    pub(crate) fn take(&self, ready: &mut VecDeque<Box<dyn ServerCommand>>, sent: usize, waker: &Waker) -> bool {
        let mut inner = self.lock();
        ready.append(&mut inner.waiting);
        inner.taken = ready.len() + sent;
        match &mut inner.waker {
            Some(known) => known.clone_from(waker),
            None => inner.waker = Some(waker.clone()),
        }
        inner.state != State::Closed
    }

    /// Resets the number of taken commands after the connection was lost.
    pub(crate) fn reset_taken(&self) {
        self.lock().taken = 0;
    }

    /// Sets the state to [`State::Down`], and fails the waiting commands.
    pub(crate) fn set_down(&self, cause: Cause) {
        self.set_state(State::Down(cause));
        self.fail_waiting(cause, |_| true);
    }

    /// Fails the waiting commands whose deadline has passed.
    pub(crate) fn expire(&self, now: Instant) {
        self.fail_waiting(Cause::Timeout, |command| command.deadline() <= now);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.lock().state == State::Up
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().state == State::Closed
    }

    /// Closes the queue. The connection ends when it has completed the commands that it has taken.
    pub(crate) fn close(&self) {
        let waker = {
            let mut inner = self.lock();
            inner.state = State::Closed;
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        self.closed.notify_one();
    }

    pub(crate) async fn until_closed(&self) {
        while !self.is_closed() {
            self.closed.notified().await;
        }
    }

    /// Sets the state, unless the queue is closed.
    pub(crate) fn set_state(&self, state: State) {
        let mut inner = self.lock();
        if inner.state != State::Closed {
            inner.state = state;
        }
    }

    fn fail_waiting(&self, cause: Cause, which: impl Fn(&dyn ServerCommand) -> bool) {
        let failed: VecDeque<_> = {
            let mut inner = self.lock();
            let (failed, rest) = inner.waiting.drain(..).partition(|command| which(&**command));
            inner.waiting = rest;
            failed
        };
        for command in failed {
            command.complete(Err(CallError { cause, executed: Executed::No }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
