//! Waiting for tokens, in turn.

pub(crate) mod lists;
pub(crate) mod timer;

use std::fmt;
use std::future::Future;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_core::{Charged, Decision, Verdict};

use crate::limit::key::Key;
use crate::limit::{Limit, Rule};
use crate::memory::MemoryStore;
use crate::memory::operation::{Reserve, Withdraw};
use crate::store::charge::{Charge, KeyHash};
use crate::store::receipt::Receipt;
use crate::wait::timer::Timer;

/// How somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The longest wait. Where it would be longer, the answer is no, at once.
    pub max_wait: Duration,
    /// How many may wait for one key, this one included.
    pub max_waiters: usize,
    /// Up to so much is added to the wait, at random, so that those who were
    /// promised neighbouring places do not all wake at once. Never earlier.
    pub jitter: Duration,
}

impl Wait {
    /// Waits up to `max_wait`, among at most 1,024 for a key, without jitter.
    #[must_use]
    pub fn up_to(max_wait: Duration) -> Wait {
        Wait { max_wait, max_waiters: 1024, jitter: Duration::ZERO }
    }
}

/// Tokens that were waited for.
#[derive(Debug)]
pub struct Acquired {
    /// The answer, as it was when they were promised: its delay is what was foreseen.
    pub decision: Decision,
    /// With which they can be given back or settled.
    pub receipt: Receipt,
}

/// Why somebody is not let wait. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAcquired {
    /// The wait would be longer than wanted, or than the quota promises ahead.
    Refused(Decision),
    /// As many wait for this key as may.
    TooManyWaiters,
}

impl fmt::Display for NotAcquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAcquired::Refused(Decision { verdict: Verdict::Impossible, limit, .. }) => {
                write!(f, "it costs more than the limit can ever hold, which is {limit}")
            }
            NotAcquired::Refused(Decision { verdict: Verdict::NoRoom, .. }) => {
                f.write_str("the store has no room for another key: raise its capacity")
            }
            NotAcquired::Refused(decision) => {
                f.write_str("the wait would be too long")?;
                if let Some(ns) = decision.retry_after() {
                    write!(f, ": try again in {:?}", Duration::from_nanos(ns))?;
                }
                f.write_str(" (a quota promises ahead only what its queue or its reservations allow)")
            }
            NotAcquired::TooManyWaiters => f.write_str("as many wait for this key as may"),
        }
    }
}

impl std::error::Error for NotAcquired {}

impl MemoryStore {
    /// Takes `cost` for `key`, waiting for it if need be.
    ///
    /// Under a leaky bucket with a queue, or a bucket with
    /// [reservations](tollgate_core::Quota::with_reservations), whoever has to
    /// wait is promised a place at once: first come, first served, also towards
    /// those who only check. If the place would come later than
    /// `wait.max_wait`, the answer is no without any waiting. Under any other
    /// quota nothing is promised ahead: it is there now, or the answer is no.
    ///
    /// Dropping the future gives the place back, and those behind move up.
    ///
    /// The place is asked for when the future is first polled.
    ///
    /// # Panics
    /// If `limit` was made by another store.
    pub async fn acquire<K: Key + ?Sized, T: Timer>(
        &self,
        limit: &Limit,
        key: &K,
        cost: u64,
        wait: Wait,
        timer: T,
    ) -> Result<Acquired, NotAcquired> {
        let charge = self.charge(limit, key, cost);
        let (decision, promise) = self.take_place(&charge, wait)?;
        let charged = match promise {
            Promise::Now(charged) => charged,
            Promise::Later(id) => {
                let jitter_ns = jitter_ns(wait.jitter, id);
                Turn { store: self, limit, key: charge.key.0, id, jitter_ns, timer, sleep: None, is_over: false }.await
            }
        };
        Ok(Acquired { decision, receipt: Receipt::in_memory(limit.clone(), charge.key, charged) })
    }

    /// Reserves, and joins the line if there is something to wait for.
    fn take_place(&self, charge: &Charge<'_, KeyHash>, wait: Wait) -> Result<(Decision, Promise), NotAcquired> {
        // The line is locked while the place is reserved, so that both have the same order.
        let mut line = self.waiting.lock(charge.key.0);
        let patience = u64::try_from(wait.max_wait.as_nanos()).unwrap_or(u64::MAX);
        let reserve = Reserve { cost: charge.cost, patience };
        let Ok((decision, charged)) = self.apply(charge.limit, charge.key.0, &reserve) else {
            return Err(NotAcquired::Refused(self.no_room(charge.limit)));
        };
        if !decision.is_allowed() {
            return Err(NotAcquired::Refused(decision));
        }
        let Rule::Bucket(rule) = &charge.limit.0.rule else { return Ok((decision, Promise::Now(charged))) };
        if decision.delay() == 0 {
            return Ok((decision, Promise::Now(charged)));
        }
        if line.waiting_at(self.clock().now_ns()) >= wait.max_waiters {
            let _ = self.apply(charge.limit, charge.key.0, &Withdraw { last: &charged, cost: charge.cost });
            return Err(NotAcquired::TooManyWaiters);
        }
        let id = self.waiting.new_id();
        line.push(id, charged, rule.bucket.departs_at(&charged));
        Ok((decision, Promise::Later(id)))
    }
}

enum Promise {
    Now(Charged),
    Later(u64),
}

/// Waits for a promised place. Dropped before its time, it gives the place back.
struct Turn<'a, T: Timer> {
    store: &'a MemoryStore,
    limit: &'a Limit,
    key: u64,
    id: u64,
    jitter_ns: u64,
    timer: T,
    /// The sleep under way, and the time it was made for.
    sleep: Option<(u64, Pin<Box<T::Sleep>>)>,
    is_over: bool,
}

impl<T: Timer> Unpin for Turn<'_, T> {}

impl<T: Timer> Future for Turn<'_, T> {
    type Output = Charged;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Charged> {
        loop {
            let promise = self.store.waiting.lock(self.key).promise(self.id, context.waker());
            let Some((charged, departs_at)) = promise else {
                unreachable!("only its own future takes a waiter out of the line")
            };
            let wake_at = departs_at.saturating_add(self.jitter_ns);
            let now = self.store.clock().now_ns();
            if now >= wake_at {
                self.store.waiting.lock(self.key).remove(self.id);
                self.is_over = true;
                return Poll::Ready(charged);
            }
            // Those behind a cancelled place are woken to sleep less.
            if self.sleep.as_ref().is_none_or(|(until, _)| *until != wake_at) {
                self.sleep = Some((wake_at, Box::pin(self.timer.sleep(wake_at - now))));
            }
            let Some((_, sleep)) = &mut self.sleep else { continue };
            match sleep.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                // A timer may be early by its own rounding: sleep again for the rest.
                Poll::Ready(()) => self.sleep = None,
            }
        }
    }
}

impl<T: Timer> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut line = self.store.waiting.lock(self.key);
        let last = line.last();
        let (Some(withdrawn), Some(last)) = (line.remove(self.id), last) else { return };
        let Rule::Bucket(rule) = &self.limit.0.rule else { return };
        // A place whose time has come is spent.
        if self.store.clock().now_ns() >= withdrawn.departs_at {
            return;
        }
        let withdraw = Withdraw { last: &last, cost: withdrawn.charged.cost };
        if self.store.apply(self.limit, self.key, &withdraw) == Ok(true) {
            let woken = line.move_up(&withdrawn, &rule.bucket);
            drop(line);
            woken.into_iter().for_each(Waker::wake);
        }
    }
}

/// Between 0 and `most`, by the secret of the process.
fn jitter_ns(most: Duration, id: u64) -> u64 {
    let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    let random = foldhash::quality::RandomState::default().hash_one(id);
    ((u128::from(random) * (u128::from(most) + 1)) >> 64) as u64
}
