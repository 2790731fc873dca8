//! The requests to one key: the queue in which they wait for their turn, and what is known of the server.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::error::ClientError;
use super::limit_kind::nanos;
use super::overload::RecentRequests;
use super::pace::{AnswerKind, Departure, Pace};
use super::random::JitterSource;
use super::retry::RetryBudget;
use super::server_hint::ServerHint;

/// The bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueBounds {
    pub(super) max_waiting: usize,
    pub(super) max_wait: Duration,
    /// The longest pause that is waited for.
    pub(super) ceiling: Duration,
}

/// Requests of one key.
#[derive(Debug)]
pub(super) struct Destination {
    /// Time 0 of the state.
    epoch: Instant,
    bounds: QueueBounds,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    recent: RecentRequests,
    budget: RetryBudget,
    random: JitterSource,
    /// In the order of their tickets.
    queue: VecDeque<WaitingRequest>,
    next_ticket: u64,
    used_ns: u64,
}

#[derive(Debug)]
struct WaitingRequest {
    ticket: u64,
    waker: Option<Waker>,
}

impl Destination {
    pub(super) fn new(epoch: Instant, bounds: QueueBounds) -> Destination {
        let ceiling_ns = nanos(bounds.ceiling);
        let state = State {
            pace: Pace::new(ceiling_ns, JitterSource::new()),
            recent: RecentRequests::default(),
            budget: RetryBudget::new(),
            random: JitterSource::new(),
            queue: VecDeque::new(),
            next_ticket: 0,
            used_ns: nanos(epoch.elapsed()),
        };
        Destination { epoch, bounds, state: Mutex::new(state) }
    }

    /// Waits until a request may leave, first in, first out, at most until `deadline`. Dropping the future leaves the
    /// queue. If the wait would end after the deadline, it fails at once. `now` is the time, if the caller has just read it.
    pub(super) fn depart(self: &Arc<Destination>, deadline: Instant, now: Option<Instant>) -> Turn {
        let known_ns = now.map(|now| self.at(now));
        Turn { destination: Arc::clone(self), deadline_ns: self.at(deadline), known_ns, ticket: None, sleep: None }
    }

    /// Decides whether a first attempt is dropped, because the server refuses most requests.
    pub(super) fn admit(&self, now: Instant) -> Result<(), ClientError> {
        let now_ns = self.at(now);
        let mut state = self.state();
        state.budget.deposit();
        let State { recent, random, .. } = &mut *state;
        if recent.drops(now_ns, random) {
            return Err(ClientError::Overloaded { sent: recent.sent, refused: recent.sent - recent.accepted });
        }
        Ok(())
    }

    /// Records what came back.
    pub(super) fn observe(&self, departure: Departure, answer: AnswerKind, hint: &ServerHint) {
        let now_ns = self.now_ns();
        let mut state = self.state();
        state.used_ns = now_ns;
        state.recent.count(answer == AnswerKind::Accepted, now_ns);
        let is_paused = state.pace.observe(departure, answer, hint, now_ns);
        // After a new pause some requests cannot wait long enough. Otherwise the first may leave earlier.
        let awoken = if is_paused { state.queue.len() } else { 1 };
        let wakers: Vec<_> = state.queue.iter_mut().take(awoken).filter_map(|waiting| waiting.waker.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes a retry from the budget, and calls `wait` for the time before it; `None` if the budget is spent.
    pub(super) fn retry(&self, wait: impl FnOnce(&mut JitterSource) -> Duration) -> Option<Duration> {
        let mut state = self.state();
        if !state.budget.withdraw() {
            return None;
        }
        Some(wait(&mut state.random))
    }

    /// Returns when it was last used, if it can be forgotten: no pause, no queue.
    pub(super) fn idle_since_ns(&self) -> Option<u64> {
        let now_ns = self.now_ns();
        let state = self.state();
        (state.queue.is_empty() && state.pace.is_idle(now_ns)).then_some(state.used_ns)
    }

    fn now_ns(&self) -> u64 {
        self.at(Instant::now())
    }

    fn at(&self, time: Instant) -> u64 {
        nanos(time.saturating_duration_since(self.epoch))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's wait for its turn.
pub(super) struct Turn {
    destination: Arc<Destination>,
    deadline_ns: u64,
    /// The time at the first poll, if it is known.
    known_ns: Option<u64>,
    /// Set while it is in the queue.
    ticket: Option<u64>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Future for Turn {
    type Output = Result<Departure, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let wake_ns = match self.advance(context.waker()) {
                Ok(Progress::Departed(departure)) => return Poll::Ready(Ok(departure)),
                Ok(Progress::Waits { until_ns }) => until_ns,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let wake = self.destination.epoch + Duration::from_nanos(wake_ns);
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(wake),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(wake))),
            }
            match self.sleep.as_mut().map(|sleep| sleep.as_mut().poll(context)) {
                Some(Poll::Ready(())) => {}
                Some(Poll::Pending) | None => return Poll::Pending,
            }
        }
    }
}

enum Progress {
    Departed(Departure),
    Waits { until_ns: u64 },
}

impl Turn {
    /// Departs if it is the first and the time has come; else joins the queue, or fails.
    fn advance(&mut self, waker: &Waker) -> Result<Progress, ClientError> {
        let bounds = self.destination.bounds;
        let now_ns = self.known_ns.take().unwrap_or_else(|| self.destination.now_ns());
        let destination = Arc::clone(&self.destination);
        let mut state = destination.state();
        let position = match self.ticket {
            Some(ticket) => state.position(ticket),
            None => state.queue.len(),
        };
        let opens_ns = state.pace.opens_ns();
        if position == 0 && opens_ns <= now_ns {
            let departure = state.pace.depart(now_ns);
            state.used_ns = now_ns;
            drop(state);
            self.leave();
            return Ok(Progress::Departed(departure));
        }
        if let Some(asked_ns) = state.pace.pause_beyond_ceiling_ns(now_ns) {
            return Err(ClientError::Paused { asked: Duration::from_nanos(asked_ns), ceiling: bounds.ceiling });
        }
        let turn_ns = opens_ns.max(now_ns).saturating_add(state.pace.interval_ns().saturating_mul(position as u64));
        if turn_ns > self.deadline_ns || now_ns >= self.deadline_ns {
            let wait = Duration::from_nanos(turn_ns - now_ns);
            return Err(ClientError::WaitTooLong { wait, max_wait: bounds.max_wait });
        }
        match self.ticket {
            None if position >= bounds.max_waiting => return Err(ClientError::QueueFull { waiting: position }),
            None => self.ticket = Some(state.join(waker.clone())),
            Some(_) => state.queue[position].waker = Some(waker.clone()),
        }
        // Only the first waits for the time at which it may leave; its departure wakes the next.
        Ok(Progress::Waits { until_ns: if position == 0 { opens_ns } else { self.deadline_ns } })
    }

    /// Leaves the queue, and wakes the next request if this was the first.
    fn leave(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let mut state = self.destination.state();
        let position = state.position(ticket);
        state.queue.remove(position);
        let next = if position == 0 { state.queue.front_mut().and_then(|next| next.waker.take()) } else { None };
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave();
    }
}

impl State {
    fn position(&self, ticket: u64) -> usize {
        self.queue.partition_point(|waiting| waiting.ticket < ticket)
    }

    fn join(&mut self, waker: Waker) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.queue.push_back(WaitingRequest { ticket, waker: Some(waker) });
        ticket
    }
}
