//! The calls of one connection: how many there are, and how long they take.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::limits::{
    CALLS_OF_EACH_CONNECTION, MAX_HEADER_FIELDS, MAX_REFUSED_HEADS, ROOM_WITHIN, WAITING_BESIDE_ARRIVING,
    WATCHES_PER_CONNECTION,
};
use crate::listen::{Activity, Reservation, Resource, Room, Share, Turn};
use crate::within::within;

/// Into how many periods calls are sorted by when they began.
const PERIODS: usize = 4;

/// What one connection has under way.
#[derive(Debug)]
pub(super) struct Calls {
    share: Arc<Share>,
    in_flight: AtomicUsize,
    watches: AtomicUsize,
    /// How many fields all calls had.
    fields: AtomicUsize,
    /// How many calls had too many fields.
    refused_heads: AtomicUsize,
    /// The period in which calls begin now.
    period: AtomicUsize,
    by_period: [AtomicUsize; PERIODS],
    /// A place that was waited for, for the next call.
    spare: Mutex<Option<Reservation>>,
    /// How many messages of this connection wait for room.
    waiting: AtomicUsize,
    /// How many have room, and have not arrived whole.
    arriving: AtomicUsize,
    reader: Mutex<Option<Waker>>,
}

/// A call, from its fields to the end of its answer.
#[derive(Debug)]
pub(super) struct Call {
    calls: Arc<Calls>,
    period: usize,
    _place: Reservation,
}

/// A call that stays open for as long as the client wishes.
#[derive(Debug)]
pub(super) struct OpenCall {
    calls: Arc<Calls>,
    _place: Reservation,
}

/// A message that waits for room.
struct Waiting<'a>(&'a Calls);

/// A message that has room, until all of it is here.
#[derive(Debug)]
pub(super) struct Arriving<'a>(&'a Calls);

impl Calls {
    pub(super) fn new(share: Arc<Share>) -> Arc<Calls> {
        Arc::new(Calls {
            share,
            in_flight: AtomicUsize::new(0),
            watches: AtomicUsize::new(0),
            fields: AtomicUsize::new(0),
            refused_heads: AtomicUsize::new(0),
            period: AtomicUsize::new(0),
            by_period: Default::default(),
            spare: Mutex::default(),
            waiting: AtomicUsize::new(0),
            arriving: AtomicUsize::new(0),
            reader: Mutex::default(),
        })
    }

    pub(super) fn begin(self: &Arc<Calls>) -> Call {
        let before = self.in_flight.fetch_add(1, Relaxed);
        // The first few need no place, so that an address which has taken all leaves something to each connection.
        let place = if before < CALLS_OF_EACH_CONNECTION { Reservation::default() } else { self.take_place() };
        let period = self.period.load(Relaxed);
        self.by_period[period % PERIODS].fetch_add(1, Relaxed);
        Call { calls: Arc::clone(self), period, _place: place }
    }

    /// There may be no place: then the call has been read already, and is answered all the same.
    fn take_place(&self) -> Reservation {
        self.share.take(Resource::Calls).or_else(|| lock(&self.spare).take()).unwrap_or_default()
    }

    /// Notes the fields of a call, and returns whether these are too many.
    pub(super) fn has_too_many_fields(&self, fields: usize) -> bool {
        self.fields.fetch_add(fields, Relaxed);
        let too_many = fields > MAX_HEADER_FIELDS;
        if too_many {
            self.refused_heads.fetch_add(1, Relaxed);
        }
        too_many
    }

    /// The fields of all calls so far.
    pub(super) fn fields(&self) -> usize {
        self.fields.load(Relaxed)
    }

    /// Whether nothing more should be read.
    pub(super) fn is_abused(&self) -> bool {
        self.refused_heads.load(Relaxed) >= MAX_REFUSED_HEADS
    }

    /// A call that stays open, if this connection and its address may have another of its kind.
    pub(super) fn open(self: &Arc<Calls>, kind: Resource) -> Option<OpenCall> {
        let open = OpenCall { _place: self.share.take(kind)?, calls: Arc::clone(self) };
        (self.watches.fetch_add(1, Relaxed) < WATCHES_PER_CONNECTION).then_some(open)
    }

    /// Waits for room for a message. Meanwhile nothing is read from the connection, unless for messages that have it.
    /// It waits only briefly: the wait is ours, and must not make a call of its client overdue.
    pub(super) async fn reserve(&self, bytes: usize) -> Option<(Reservation, Arriving<'_>)> {
        self.waiting.fetch_add(1, Relaxed);
        // Dropped last: who is woken then must see that this one arrives.
        let _waiting = Waiting(self);
        let reserved = within(ROOM_WITHIN, pin!(self.share.reserve(Resource::RequestBytes, bytes))).await?;
        self.arriving.fetch_add(1, Relaxed);
        Some((reserved, Arriving(self)))
    }

    /// How much may be read now. `Pending` while messages wait that nothing more may be read beside.
    pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<Room> {
        if self.is_held_up() {
            *lock(&self.reader) = Some(context.waker().clone());
            // It may have had its room before the waker was there to be woken.
            if self.is_held_up() {
                return Poll::Pending;
            }
        }
        Poll::Ready(match self.share.room_for_calls() {
            Room::None if self.in_flight.load(Relaxed) < CALLS_OF_EACH_CONNECTION => Room::Scarce,
            room => room,
        })
    }

    /// Whether nothing may be read until a message that waits has its room.
    ///
    /// Those that have room must get the rest of their bytes, or they would keep it from those that wait. But what
    /// is read for them may be the beginnings of others, which then wait as well and are not counted: so there
    /// may be only a few of these.
    fn is_held_up(&self) -> bool {
        match self.waiting.load(Relaxed) {
            0 => false,
            waiting => self.arriving.load(Relaxed) == 0 || waiting > WAITING_BESIDE_ARRIVING,
        }
    }

    /// The address's turn to have more read and understood, where it need not be waited for.
    pub(super) fn try_turn(&self) -> Option<Turn> {
        self.share.try_turn()
    }

    /// Waits for the address's turn to have more read and understood.
    pub(super) fn turn(&self) -> impl Future<Output = Turn> + Send + 'static {
        let share = Arc::clone(&self.share);
        async move { share.turn().await }
    }

    /// Waits until the address may have another call, and keeps the place for it.
    pub(super) fn place(self: &Arc<Calls>) -> impl Future<Output = ()> + Send + 'static {
        let calls = Arc::clone(self);
        async move {
            if lock(&calls.spare).is_none() {
                let place = Arc::clone(&calls.share).wait_for_call().await;
                *lock(&calls.spare) = Some(place);
            }
        }
    }

    /// Waits until a call has taken longer than two periods, or the other end has not taken for a period what was
    /// written to it.
    pub(super) async fn overdue(&self, period: Duration, activity: &Activity) {
        loop {
            tokio::time::sleep(period).await;
            let next = self.period.load(Relaxed).wrapping_add(1);
            let oldest = &self.by_period[next.wrapping_add(1) % PERIODS];
            if oldest.load(Relaxed) > 0 || activity.is_stuck_for(period) {
                return;
            }
            self.period.store(next, Relaxed);
        }
    }
}

impl Call {
    pub(super) async fn reserve(&self, bytes: usize) -> Option<(Reservation, Arriving<'_>)> {
        self.calls.reserve(bytes).await
    }
}

impl Drop for Call {
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

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
        if let Some(reader) = lock(&self.0.reader).take() {
            reader.wake();
        }
    }
}

impl Drop for Arriving<'_> {
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
        Calls::new(Share::alone())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_never_ends_ends_its_connection() {
        let (calls, begun) = (calls(), Instant::now());
        let _call = calls.begin();
        calls.overdue(PERIOD, &Activity::new()).await;
        assert!((2 * PERIOD..=4 * PERIOD).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_end_in_time_do_not_however_many_there_are() {
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
    fn a_connection_has_some_calls_though_its_address_has_taken_all() {
        let share = Share::alone();
        let held: Vec<Reservation> = std::iter::from_fn(|| share.take(Resource::Calls)).collect();
        let calls = Calls::new(share);
        let room = || calls.poll_room(&mut Context::from_waker(Waker::noop()));
        let few: Vec<Call> = (0..CALLS_OF_EACH_CONNECTION).map(|_| calls.begin()).collect();
        assert_eq!(room(), Poll::Ready(Room::None));
        drop(few);
        assert_eq!(room(), Poll::Ready(Room::Scarce));
        drop(held);
        assert_eq!(room(), Poll::Ready(Room::Plenty));
    }

    #[tokio::test]
    async fn messages_that_have_room_arrive_while_a_few_others_wait() {
        let share = Share::alone();
        let calls = Calls::new(Arc::clone(&share));
        let mut context = Context::from_waker(Waker::noop());
        let room = || calls.poll_room(&mut Context::from_waker(Waker::noop()));
        let (first, arriving) = calls.reserve(1 << 20).await.unwrap();
        let others = share.reserve(Resource::RequestBytes, 47 << 20).await;
        let mut waiting: Vec<_> = (0..=WAITING_BESIDE_ARRIVING).map(|_| Box::pin(calls.reserve(1 << 20))).collect();
        for message in &mut waiting {
            assert_eq!(room(), Poll::Ready(Room::Plenty));
            assert!(message.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(room(), Poll::Pending);
        waiting.pop();
        assert_eq!(room(), Poll::Ready(Room::Plenty));
        // Once it is here, there is nothing left to read but what would have to wait.
        drop(arriving);
        assert_eq!(room(), Poll::Pending);
        drop(first);
        assert!(waiting[0].as_mut().poll(&mut context).is_ready());
        drop((waiting, others));
        assert_eq!(room(), Poll::Ready(Room::Plenty));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_does_not_wait_for_room_until_its_call_is_overdue() {
        let share = Share::alone();
        let _all = share.reserve(Resource::RequestBytes, usize::MAX).await;
        let calls = Calls::new(share);
        let begun = Instant::now();
        assert!(calls.reserve(1).await.is_none());
        assert!(begun.elapsed() < PERIOD, "{:?}", begun.elapsed());
        let room = calls.poll_room(&mut Context::from_waker(Waker::noop()));
        assert_eq!(room, Poll::Ready(Room::Plenty));
    }

    #[test]
    fn watches_of_a_connection_are_bounded() {
        let calls = calls();
        let held: Vec<OpenCall> = std::iter::from_fn(|| calls.open(Resource::Watches)).collect();
        assert_eq!(held.len(), WATCHES_PER_CONNECTION);
        drop(held);
        assert!(calls.open(Resource::Watches).is_some());
    }
}
