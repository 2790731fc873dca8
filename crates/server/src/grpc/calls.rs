//! The calls of one connection: their number and duration.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::limits::{
    FREE_CALLS_PER_CONNECTION, MAX_HEADER_FIELDS, MAX_REFUSED_CALLS, MAX_WAITING_WHILE_ARRIVING, RESERVE_TIMEOUT,
    WATCHES_PER_CONNECTION,
};
use crate::listen::{Activity, AddressShare, CallCapacity, Reservation, Resource, WorkTurn};
use crate::timeout_unless_ready::timeout_unless_ready;

/// The number of periods by which calls are grouped by start time.
const PERIODS: usize = 4;

/// The calls in flight on one connection.
#[derive(Debug)]
pub(super) struct Calls {
    share: Arc<AddressShare>,
    in_flight: AtomicUsize,
    watches: AtomicUsize,
    /// The header fields of all calls.
    fields: AtomicUsize,
    /// The calls with too many fields.
    refused_calls: AtomicUsize,
    /// The current period.
    period: AtomicUsize,
    by_period: [AtomicUsize; PERIODS],
    /// A slot reserved for the next call.
    spare: Mutex<Option<Reservation>>,
    /// The messages that wait for memory.
    waiting: AtomicUsize,
    /// The messages with memory that have not fully arrived.
    arriving: AtomicUsize,
    reader: Mutex<Option<Waker>>,
}

/// A call in flight, from its headers to the end of its response.
#[derive(Debug)]
pub(super) struct CallInFlight {
    calls: Arc<Calls>,
    period: usize,
    _slot: Reservation,
}

/// A long-lived call.
#[derive(Debug)]
pub(super) struct OpenCall {
    calls: Arc<Calls>,
    _slot: Reservation,
}

/// A message that waits for memory.
struct WaitingMessage<'a>(&'a Calls);

/// A message with memory, until it has fully arrived.
#[derive(Debug)]
pub(super) struct ArrivingMessage<'a>(&'a Calls);

impl Calls {
    pub(super) fn new(share: Arc<AddressShare>) -> Arc<Calls> {
        Arc::new(Calls {
            share,
            in_flight: AtomicUsize::new(0),
            watches: AtomicUsize::new(0),
            fields: AtomicUsize::new(0),
            refused_calls: AtomicUsize::new(0),
            period: AtomicUsize::new(0),
            by_period: Default::default(),
            spare: Mutex::default(),
            waiting: AtomicUsize::new(0),
            arriving: AtomicUsize::new(0),
            reader: Mutex::default(),
        })
    }

    pub(super) fn begin(self: &Arc<Calls>) -> CallInFlight {
        let before = self.in_flight.fetch_add(1, Relaxed);
        // The first few need no slot, so that an address at its limit leaves some to each connection.
        let slot = if before < FREE_CALLS_PER_CONNECTION { Reservation::default() } else { self.take_slot() };
        let period = self.period.load(Relaxed);
        self.by_period[period % PERIODS].fetch_add(1, Relaxed);
        CallInFlight { calls: Arc::clone(self), period, _slot: slot }
    }

    /// Takes a slot for a call. Without a free slot, the call is served anyway, because it was already read.
    fn take_slot(&self) -> Reservation {
        self.share.take(Resource::Calls).or_else(|| lock(&self.spare).take()).unwrap_or_default()
    }

    /// Counts the fields of a call, and returns whether there are too many.
    pub(super) fn has_too_many_fields(&self, fields: usize) -> bool {
        self.fields.fetch_add(fields, Relaxed);
        let too_many = fields > MAX_HEADER_FIELDS;
        if too_many {
            self.refused_calls.fetch_add(1, Relaxed);
        }
        too_many
    }

    /// Returns the header fields of all calls so far.
    pub(super) fn fields(&self) -> usize {
        self.fields.load(Relaxed)
    }

    /// Returns whether the connection must not be read any further.
    pub(super) fn is_abused(&self) -> bool {
        self.refused_calls.load(Relaxed) >= MAX_REFUSED_CALLS
    }

    /// Opens a long-lived call, if the connection and its address may have another.
    pub(super) fn open(self: &Arc<Calls>, kind: Resource) -> Option<OpenCall> {
        let open = OpenCall { _slot: self.share.take(kind)?, calls: Arc::clone(self) };
        (self.watches.fetch_add(1, Relaxed) < WATCHES_PER_CONNECTION).then_some(open)
    }

    /// Waits for memory for a message. Meanwhile nothing is read from the connection, except for messages that have
    /// memory. The wait is short: it must not make the client's call time out.
    pub(super) async fn reserve(&self, bytes: usize) -> Option<(Reservation, ArrivingMessage<'_>)> {
        self.waiting.fetch_add(1, Relaxed);
        // Dropped last: the woken reader must see that this message arrives.
        let _waiting = WaitingMessage(self);
        let reserved =
            timeout_unless_ready(RESERVE_TIMEOUT, pin!(self.share.reserve(Resource::RequestBytes, bytes))).await?;
        self.arriving.fetch_add(1, Relaxed);
        Some((reserved, ArrivingMessage(self)))
    }

    /// Returns how much may be read. `Pending` while reading must wait for messages.
    pub(super) fn poll_capacity(&self, context: &mut Context<'_>) -> Poll<CallCapacity> {
        if self.is_read_blocked() {
            *lock(&self.reader) = Some(context.waker().clone());
            // The memory may have been granted before the waker was stored.
            if self.is_read_blocked() {
                return Poll::Pending;
            }
        }
        Poll::Ready(match self.share.call_capacity() {
            CallCapacity::None if self.in_flight.load(Relaxed) < FREE_CALLS_PER_CONNECTION => CallCapacity::Scarce,
            capacity => capacity,
        })
    }

    /// Returns whether nothing may be read until a waiting message gets memory.
    ///
    /// Messages with memory must receive their remaining bytes, or they would keep it from those that wait. But
    /// reading for them may read the beginnings of others, which then wait too and are not counted: so only a few may.
    fn is_read_blocked(&self) -> bool {
        match self.waiting.load(Relaxed) {
            0 => false,
            waiting => self.arriving.load(Relaxed) == 0 || waiting > MAX_WAITING_WHILE_ARRIVING,
        }
    }

    /// Takes a turn to read and parse without waiting.
    pub(super) fn try_turn(&self) -> Option<WorkTurn> {
        self.share.try_turn()
    }

    /// Waits for a turn to read and parse.
    pub(super) fn turn(&self) -> impl Future<Output = WorkTurn> + Send + 'static {
        let share = Arc::clone(&self.share);
        async move { share.turn().await }
    }

    /// Waits until the address may have another call, and reserves its slot.
    pub(super) fn reserve_slot(self: &Arc<Calls>) -> impl Future<Output = ()> + Send + 'static {
        let calls = Arc::clone(self);
        async move {
            if lock(&calls.spare).is_none() {
                let slot = Arc::clone(&calls.share).wait_for_call().await;
                *lock(&calls.spare) = Some(slot);
            }
        }
    }

    /// Waits until a call has taken longer than two periods, or a write has made no progress for a period.
    pub(super) async fn overdue(&self, period: Duration, activity: &Activity) {
        loop {
            tokio::time::sleep(period).await;
            let next = self.period.load(Relaxed).wrapping_add(1);
            let oldest = &self.by_period[next.wrapping_add(1) % PERIODS];
            if oldest.load(Relaxed) > 0 || activity.is_write_blocked_for(period) {
                return;
            }
            self.period.store(next, Relaxed);
        }
    }
}

impl CallInFlight {
    pub(super) async fn reserve(&self, bytes: usize) -> Option<(Reservation, ArrivingMessage<'_>)> {
        self.calls.reserve(bytes).await
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.calls.in_flight.fetch_sub(1, Relaxed);
        self.calls.by_period[self.period % PERIODS].fetch_sub(1, Relaxed);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.calls.watches.fetch_sub(1, Relaxed);
    }
}

impl Drop for WaitingMessage<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
        if let Some(reader) = lock(&self.0.reader).take() {
            reader.wake();
        }
    }
}

impl Drop for ArrivingMessage<'_> {
    fn drop(&mut self) {
        self.0.arriving.fetch_sub(1, Relaxed);
    }
}

/// Nothing that holds a lock can panic halfway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    fn calls() -> Arc<Calls> {
        Calls::new(AddressShare::alone())
    }

    #[tokio::test(start_paused = true)]
    async fn call_that_never_ends_closes_its_connection() {
        let (calls, begun) = (calls(), Instant::now());
        let _call = calls.begin();
        calls.overdue(PERIOD, &Activity::new()).await;
        assert!((2 * PERIOD..=4 * PERIOD).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_end_in_time_keep_the_connection_open() {
        let calls = calls();
        let busy = async {
            loop {
                let (_one, _other) = (calls.begin(), calls.begin());
                sleep(PERIOD).await;
            }
        };
        let activity = Activity::new();
        let both = async {
            tokio::select! {
                () = busy => {}
                () = calls.overdue(PERIOD, &activity) => {}
            }
        };
        assert!(timeout(20 * PERIOD, both).await.is_err());
    }

    #[test]
    fn connection_has_free_calls_when_its_address_has_none() {
        let share = AddressShare::alone();
        let held: Vec<Reservation> = std::iter::from_fn(|| share.take(Resource::Calls)).collect();
        let calls = Calls::new(share);
        let capacity = || calls.poll_capacity(&mut Context::from_waker(Waker::noop()));
        let few: Vec<CallInFlight> = (0..FREE_CALLS_PER_CONNECTION).map(|_| calls.begin()).collect();
        assert_eq!(capacity(), Poll::Ready(CallCapacity::None));
        drop(few);
        assert_eq!(capacity(), Poll::Ready(CallCapacity::Scarce));
        drop(held);
        assert_eq!(capacity(), Poll::Ready(CallCapacity::Plenty));
    }

    #[tokio::test]
    async fn messages_with_reservations_arrive_while_a_few_others_wait() {
        let share = AddressShare::alone();
        let calls = Calls::new(Arc::clone(&share));
        let mut context = Context::from_waker(Waker::noop());
        let capacity = || calls.poll_capacity(&mut Context::from_waker(Waker::noop()));
        let (first, arriving) = calls.reserve(1 << 20).await.unwrap();
        let others = share.reserve(Resource::RequestBytes, 47 << 20).await;
        let mut waiting: Vec<_> = (0..=MAX_WAITING_WHILE_ARRIVING).map(|_| Box::pin(calls.reserve(1 << 20))).collect();
        for message in &mut waiting {
            assert_eq!(capacity(), Poll::Ready(CallCapacity::Plenty));
            assert!(message.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(capacity(), Poll::Pending);
        waiting.pop();
        assert_eq!(capacity(), Poll::Ready(CallCapacity::Plenty));
        // Once it has arrived, everything left to read would have to wait.
        drop(arriving);
        assert_eq!(capacity(), Poll::Pending);
        drop(first);
        assert!(waiting[0].as_mut().poll(&mut context).is_ready());
        drop((waiting, others));
        assert_eq!(capacity(), Poll::Ready(CallCapacity::Plenty));
    }

    #[tokio::test(start_paused = true)]
    async fn messages_wait_for_capacity_no_longer_than_their_call() {
        let share = AddressShare::alone();
        let _all = share.reserve(Resource::RequestBytes, usize::MAX).await;
        let calls = Calls::new(share);
        let begun = Instant::now();
        assert!(calls.reserve(1).await.is_none());
        assert!(begun.elapsed() < PERIOD, "{:?}", begun.elapsed());
        let capacity = calls.poll_capacity(&mut Context::from_waker(Waker::noop()));
        assert_eq!(capacity, Poll::Ready(CallCapacity::Plenty));
    }

    #[test]
    fn watches_per_connection_are_limited() {
        let calls = calls();
        let held: Vec<OpenCall> = std::iter::from_fn(|| calls.open(Resource::Watches)).collect();
        assert_eq!(held.len(), WATCHES_PER_CONNECTION);
        drop(held);
        assert!(calls.open(Resource::Watches).is_some());
    }
}
