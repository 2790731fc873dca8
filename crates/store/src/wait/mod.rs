//! Waiting for tokens, in FIFO order.

pub(crate) mod queues;
pub(crate) mod timer;

use std::fmt;
use std::future::Future;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_core::{ChargeVerdict, Charged, Decision};

use crate::limit::key::Key;
use crate::limit::{Limit, LimitTable};
use crate::memory::MemoryStore;
use crate::memory::operation::{ReserveOp, WithdrawOp};
use crate::store::charge::{Charge, KeyHash};
use crate::store::receipt::ChargeReceipt;
use crate::wait::timer::Timer;

/// The options of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The longest wait. If it would be longer, the request is refused at once.
    pub max_wait: Duration,
    /// The largest number of callers that wait for one key, including this one.
    pub max_waiters: usize,
    /// The largest random delay added to the wait, so that callers with adjacent reservations do not all wake at once.
    /// It never shortens the wait.
    pub jitter: Duration,
}

impl Wait {
    /// Creates options for a wait of up to `max_wait`, among at most 1,024 waiters for a key, without jitter.
    #[must_use]
    pub fn up_to(max_wait: Duration) -> Wait {
        Wait { max_wait, max_waiters: 1024, jitter: Duration::ZERO }
    }
}

/// Tokens that [`MemoryStore::acquire`] has acquired.
#[derive(Debug)]
pub struct Acquired {
    /// The decision at the time of the reservation. Its delay is the expected one.
    pub decision: Decision,
    /// The receipt, to refund or settle the tokens.
    pub receipt: ChargeReceipt,
}

/// The reasons why tokens could not be acquired. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// The wait would exceed the longest wait of the caller, or the quota's reservations.
    Refused(Decision),
    /// The largest number of callers already waits for this key.
    TooManyWaiters,
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::Refused(Decision { verdict: ChargeVerdict::Impossible, limit, .. }) => {
                write!(f, "the cost exceeds what the limit can ever hold, which is {limit}")
            }
            AcquireError::Refused(Decision { verdict: ChargeVerdict::Unavailable, .. }) => {
                f.write_str("the store has no space for another key: raise its capacity")
            }
            AcquireError::Refused(decision) => {
                f.write_str("the wait would be too long")?;
                if let Some(ns) = decision.retry_after() {
                    write!(f, ": try again in {:?}", Duration::from_nanos(ns))?;
                }
                f.write_str(" (a quota allows waiting only within its queue or its reservations)")
            }
            AcquireError::TooManyWaiters => f.write_str("the largest number of callers already waits for this key"),
        }
    }
}

impl std::error::Error for AcquireError {}

impl MemoryStore {
    /// Charges `cost` to `key`, waiting for its tokens if necessary.
    ///
    /// Under a leaky bucket with a queue, or a bucket with [reservations](tollgate_core::Quota::with_reservations), a
    /// caller that has to wait gets a reservation at once: first come, first served, including callers that only check.
    /// If the reservation would be later than `wait.max_wait`, the call fails without waiting. Other quotas have no
    /// reservations: the call succeeds or fails at once.
    ///
    /// Dropping the future cancels the reservation, and the waiters behind it move up. The reservation is made when the
    /// future is first polled.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_store::{ManualClock, MemoryOptions, MemoryStore, Quota, Wait};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let clock = ManualClock::at(1_800_000_000_000_000_000);
    /// let store = MemoryStore::with(MemoryOptions::default(), clock.clone())?;
    /// let quota = Quota::token_bucket("10/s burst 1".parse()?)?.with_reservations(Duration::from_secs(1))?;
    /// let limit = store.limit("api", quota)?;
    /// let wait = Wait::up_to(Duration::from_secs(1));
    /// let acquired = store.acquire(&limit, "alice", 1, wait, clock.clone()).await?;
    /// assert_eq!(acquired.decision.delay(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    ) -> Result<Acquired, AcquireError> {
        let charge = self.charge(limit, key, cost);
        let (decision, reservation) = self.reserve_or_join(&charge, wait)?;
        let charged = match reservation {
            Reservation::Now(charged) => charged,
            Reservation::Later(id) => {
                let jitter_ns = jitter_ns(wait.jitter, id);
                ReservedWait {
                    store: self,
                    limit,
                    key: charge.key.0,
                    id,
                    jitter_ns,
                    timer,
                    sleep: None,
                    is_over: false,
                }
                .await
            }
        };
        Ok(Acquired { decision, receipt: ChargeReceipt::in_memory(limit.clone(), charge.key, charged) })
    }

    /// Makes a reservation, and joins the queue if there is a delay.
    fn reserve_or_join(
        &self,
        charge: &Charge<'_, KeyHash>,
        wait: Wait,
    ) -> Result<(Decision, Reservation), AcquireError> {
        // The queue is locked while the reservation is made, so that both have the same order.
        let mut queue = self.waiting.lock(charge.key.0);
        let max_wait = u64::try_from(wait.max_wait.as_nanos()).unwrap_or(u64::MAX);
        let reserve = ReserveOp { cost: charge.cost, max_wait };
        let Ok((decision, charged)) = self.apply(charge.limit, charge.key.0, &reserve) else {
            return Err(AcquireError::Refused(self.unavailable(charge.limit)));
        };
        if !decision.is_allowed() {
            return Err(AcquireError::Refused(decision));
        }
        let LimitTable::Bucket(quota) = &charge.limit.0.table else { return Ok((decision, Reservation::Now(charged))) };
        if decision.delay() == 0 {
            return Ok((decision, Reservation::Now(charged)));
        }
        if queue.waiting_at(self.clock().now_ns()) >= wait.max_waiters {
            let _ = self.apply(charge.limit, charge.key.0, &WithdrawOp { last: &charged, cost: charge.cost });
            return Err(AcquireError::TooManyWaiters);
        }
        let id = self.waiting.new_id();
        queue.push(id, charged, quota.bucket.departs_at(&charged));
        Ok((decision, Reservation::Later(id)))
    }
}

enum Reservation {
    Now(Charged),
    Later(u64),
}

/// Waits for a reservation. If it is dropped before the reservation departs, it cancels the reservation.
struct ReservedWait<'a, T: Timer> {
    store: &'a MemoryStore,
    limit: &'a Limit,
    key: u64,
    id: u64,
    jitter_ns: u64,
    timer: T,
    /// The current sleep, and the time it was started for.
    sleep: Option<(u64, Pin<Box<T::Sleep>>)>,
    is_over: bool,
}

impl<T: Timer> Unpin for ReservedWait<'_, T> {}

impl<T: Timer> Future for ReservedWait<'_, T> {
    type Output = Charged;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Charged> {
        loop {
            let reservation = self.store.waiting.lock(self.key).reservation(self.id, context.waker());
            let Some((charged, departs_at)) = reservation else {
                unreachable!("only its own future removes a waiter from the queue")
            };
            let wake_at = departs_at.saturating_add(self.jitter_ns);
            let now = self.store.clock().now_ns();
            if now >= wake_at {
                self.store.waiting.lock(self.key).remove(self.id);
                self.is_over = true;
                return Poll::Ready(charged);
            }
            // Waiters after a cancelled reservation depart sooner: they are woken to sleep less.
            if self.sleep.as_ref().is_none_or(|(until, _)| *until != wake_at) {
                self.sleep = Some((wake_at, Box::pin(self.timer.sleep(wake_at - now))));
            }
            let Some((_, sleep)) = &mut self.sleep else { continue };
            match sleep.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                // A timer may fire early because of rounding: sleep again for the rest.
                Poll::Ready(()) => self.sleep = None,
            }
        }
    }
}

impl<T: Timer> Drop for ReservedWait<'_, T> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut queue = self.store.waiting.lock(self.key);
        let last = queue.last();
        let (Some(withdrawn), Some(last)) = (queue.remove(self.id), last) else { return };
        let LimitTable::Bucket(quota) = &self.limit.0.table else { return };
        // A reservation that has departed counts as used.
        if self.store.clock().now_ns() >= withdrawn.departs_at {
            return;
        }
        let withdraw = WithdrawOp { last: &last, cost: withdrawn.charged.cost };
        if self.store.apply(self.limit, self.key, &withdraw) == Ok(true) {
            let woken = queue.advance_after(&withdrawn, &quota.bucket);
            drop(queue);
            woken.into_iter().for_each(Waker::wake);
        }
    }
}

/// Returns a random delay from 0 to `max`, derived from the process's secret.
fn jitter_ns(max: Duration, id: u64) -> u64 {
    let max = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
    let random = foldhash::quality::RandomState::default().hash_one(id);
    ((u128::from(random) * (u128::from(max) + 1)) >> 64) as u64
}
