use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::transport::{Cause, Executed, Trouble};
use crate::wire::protocol::command::Command;

/// What waits to be sent over one connection.
///
/// Callers push from any thread. The task that owns the connection takes all
/// that is there at once, which makes one write of it.
pub(crate) struct CallQueue {
    inner: Mutex<Inner>,
    /// The most that may wait and be taken together.
    limit: usize,
    closed: Notify,
}

struct Inner {
    state: State,
    waiting: VecDeque<Box<dyn Command>>,
    /// Calls that the connection has taken and not answered.
    taken: usize,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There will be a connection in a moment: calls wait for it.
    Connecting,
    Up,
    /// There is none, and why. Calls hear so at once.
    Down(Cause),
    /// There will be none any more.
    Closed,
}

impl CallQueue {
    pub(crate) fn new(limit: usize) -> CallQueue {
        let inner = Inner { state: State::Connecting, waiting: VecDeque::new(), taken: 0, waker: None };
        CallQueue { inner: Mutex::new(inner), limit, closed: Notify::new() }
    }

    /// Adds a command, or tells it at once why not.
    pub(crate) fn push(&self, command: Box<dyn Command>) {
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
        // Not under the lock: who hears may push again.
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some((command, cause)) = refused {
            command.answered(Err(Trouble { cause, executed: Executed::No }));
        }
    }

    /// Moves all that waits behind what is in `ready`, and will wake `waker` when there is more.
    /// `sent` more were taken before and are not answered. Returns whether the queue is still open.
    pub(crate) fn take(&self, ready: &mut VecDeque<Box<dyn Command>>, sent: usize, waker: &Waker) -> bool {
        let mut inner = self.lock();
        ready.append(&mut inner.waiting);
        inner.taken = ready.len() + sent;
        match &mut inner.waker {
            Some(known) => known.clone_from(waker),
            None => inner.waker = Some(waker.clone()),
        }
        inner.state != State::Closed
    }

    /// The connection was lost, and with it all that it had taken.
    pub(crate) fn forget_taken(&self) {
        self.lock().taken = 0;
    }

    /// From now on calls hear at once that there is no connection, and so do those that wait.
    pub(crate) fn set_down(&self, cause: Cause) {
        self.set(State::Down(cause));
        self.fail_waiting(cause, |_| true);
    }

    /// Tells those that have waited for too long.
    pub(crate) fn expire(&self, now: Instant) {
        self.fail_waiting(Cause::Timeout, |command| command.deadline() <= now);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.lock().state == State::Up
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().state == State::Closed
    }

    /// Ends the connection when it has answered what it has taken.
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

    pub(crate) fn set(&self, state: State) {
        let mut inner = self.lock();
        if inner.state != State::Closed {
            inner.state = state;
        }
    }

    fn fail_waiting(&self, cause: Cause, which: impl Fn(&dyn Command) -> bool) {
        let failed: VecDeque<_> = {
            let mut inner = self.lock();
            let (failed, rest) = inner.waiting.drain(..).partition(|command| which(&**command));
            inner.waiting = rest;
            failed
        };
        for command in failed {
            command.answered(Err(Trouble { cause, executed: Executed::No }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
