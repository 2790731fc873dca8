use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::counted_as::counted_as;
use crate::listen::connection_metrics::ShareMetrics;

/// Bytes are counted in kilobytes, because a semaphore counts no further than 32 bits.
const UNIT_BYTES: usize = 1 << 10;

/// What one address may hold over all listeners, and what all addresses may hold together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareLimits {
    /// Bodies and commands that are being read, in bytes.
    pub(crate) request_bytes: Limit,
    /// Answers to batches that are not written yet, in bytes.
    pub(crate) answer_bytes: Limit,
    /// Calls of gRPC beyond the few that every connection may have.
    pub(crate) calls: Limit,
    /// Calls of gRPC that stay open for as long as the client wishes.
    pub(crate) watches: Limit,
    /// Calls of gRPC that ask again and again.
    pub(crate) conversations: Limit,
    /// How much that takes long is done for one address at the same time.
    pub(crate) turns: usize,
}

/// How much of something, for one address and in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) per_address: usize,
    pub(crate) in_all: usize,
}

/// Together with what a thousand connections take by themselves, less than 256 MB for one address. One address has
/// a quarter of each at most.
impl Default for ShareLimits {
    fn default() -> ShareLimits {
        ShareLimits {
            request_bytes: Limit::new(48 << 20),
            answer_bytes: Limit::new(48 << 20),
            calls: Limit::new(8 << 10),
            watches: Limit::new(1 << 10),
            conversations: Limit::new(1 << 5),
            // All processors may work for one address, but nothing else of it stands in line before others.
            turns: thread::available_parallelism().map_or(1, NonZero::get),
        }
    }
}

impl Limit {
    const ADDRESSES: usize = 4;

    const fn new(per_address: usize) -> Limit {
        Limit { per_address, in_all: Limit::ADDRESSES * per_address }
    }
}

/// What connections hold beside themselves, by address. All clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Shares(Arc<State>);

#[derive(Debug)]
struct State {
    limits: ShareLimits,
    in_all: Pools,
    by_address: Mutex<HashMap<IpAddr, Weak<Share>>>,
    metrics: ShareMetrics,
}

/// What the connections of one address hold together.
#[derive(Debug)]
pub(crate) struct Share {
    address: IpAddr,
    own: Pools,
    turns: Arc<Semaphore>,
    shares: Shares,
}

#[derive(Debug)]
struct Pools {
    request_bytes: Arc<Semaphore>,
    answer_bytes: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    conversations: Arc<Semaphore>,
}

/// Something of both an address's share and of what all have; given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    of_address: Option<OwnedSemaphorePermit>,
    of_all: Option<OwnedSemaphorePermit>,
}

/// The address's turn to have something done that takes long; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "only held")] Option<OwnedSemaphorePermit>);

/// How much room there is for calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Plenty,
    Scarce,
    None,
}

impl Shares {
    pub(crate) fn new(limits: ShareLimits, metrics: ShareMetrics) -> Shares {
        let in_all = Pools::new(&limits, |limit| limit.in_all);
        Shares(Arc::new(State { limits, in_all, by_address: Mutex::default(), metrics }))
    }

    /// The share of an address. It is the same for all its connections.
    pub(crate) fn of(&self, address: IpAddr) -> Arc<Share> {
        let address = counted_as(address);
        let mut by_address = self.lock();
        if let Some(share) = by_address.get(&address).and_then(Weak::upgrade) {
            return share;
        }
        let own = Pools::new(&self.0.limits, |limit| limit.per_address);
        let turns = Arc::new(Semaphore::new(self.0.limits.turns));
        let share = Arc::new(Share { address, own, turns, shares: self.clone() });
        by_address.insert(address, Arc::downgrade(&share));
        share
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Weak<Share>>> {
        self.0.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Addresses that hold nothing are not remembered, or the table would grow without end.
impl Drop for Share {
    fn drop(&mut self) {
        let mut by_address = self.shares.lock();
        // The address may have come back meanwhile, with another share.
        if by_address.get(&self.address).is_some_and(|share| share.strong_count() == 0) {
            by_address.remove(&self.address);
        }
    }
}

impl Share {
    /// A share that nothing else uses.
    pub(crate) fn alone() -> Arc<Share> {
        let nowhere = IpAddr::from([0, 0, 0, 0]);
        Shares::new(ShareLimits::default(), ShareMetrics::default()).of(nowhere)
    }

    /// Waits until so many bytes of a request may be held. Who holds them must not wait for others of them, or all
    /// might wait for each other.
    pub(crate) async fn reserve_request(&self, bytes: usize) -> Reservation {
        let state = &*self.shares.0;
        let units = units(bytes, state.limits.request_bytes);
        let reservation = Reservation::take(&self.own.request_bytes, &state.in_all.request_bytes, units);
        match reservation {
            Some(reservation) => reservation,
            None => {
                state.metrics.request_waits.inc();
                Reservation::wait(&self.own.request_bytes, &state.in_all.request_bytes, units).await
            }
        }
    }

    /// Waits until so many bytes of an answer may be held. Who holds bytes of a request may wait for them; who
    /// holds an answer waits only for its client.
    pub(crate) async fn reserve_answer(&self, bytes: usize) -> Reservation {
        let state = &*self.shares.0;
        let units = units(bytes, state.limits.answer_bytes);
        let reservation = Reservation::take(&self.own.answer_bytes, &state.in_all.answer_bytes, units);
        match reservation {
            Some(reservation) => reservation,
            None => {
                state.metrics.answer_waits.inc();
                Reservation::wait(&self.own.answer_bytes, &state.in_all.answer_bytes, units).await
            }
        }
    }

    /// A place for a call.
    pub(crate) fn take_call(&self) -> Option<Reservation> {
        Reservation::take(&self.own.calls, &self.shares.0.in_all.calls, 1)
    }

    /// Whether more calls should be read.
    pub(crate) fn room_for_calls(&self) -> Room {
        let own = self.own.calls.available_permits();
        let in_all = self.shares.0.in_all.calls.available_permits();
        match own.min(in_all) {
            0 => Room::None,
            few if few < self.shares.0.limits.calls.per_address / 8 => Room::Scarce,
            _ => Room::Plenty,
        }
    }

    /// Waits for a place for a call.
    pub(crate) async fn wait_for_call(self: Arc<Share>) -> Reservation {
        self.shares.0.metrics.call_waits.inc();
        Reservation::wait(&self.own.calls, &self.shares.0.in_all.calls, 1).await
    }

    /// A turn at once, or none.
    pub(crate) fn try_turn(&self) -> Option<Turn> {
        Arc::clone(&self.turns).try_acquire_owned().ok().map(|permit| Turn(Some(permit)))
    }

    /// Waits for a turn to do something that takes long. Others of the same address wait meanwhile, and nobody else.
    pub(crate) async fn turn(&self) -> Turn {
        Turn(Arc::clone(&self.turns).acquire_owned().await.ok())
    }

    /// A place for a call that stays open.
    pub(crate) fn take_watch(&self) -> Option<Reservation> {
        Reservation::take(&self.own.watches, &self.shares.0.in_all.watches, 1)
    }

    /// A place for a call that asks again and again.
    pub(crate) fn take_conversation(&self) -> Option<Reservation> {
        Reservation::take(&self.own.conversations, &self.shares.0.in_all.conversations, 1)
    }
}

impl Pools {
    fn new(limits: &ShareLimits, of: impl Fn(Limit) -> usize) -> Pools {
        let pool = |size: usize| Arc::new(Semaphore::new(size.min(Semaphore::MAX_PERMITS)));
        Pools {
            request_bytes: pool(of(limits.request_bytes) / UNIT_BYTES),
            answer_bytes: pool(of(limits.answer_bytes) / UNIT_BYTES),
            calls: pool(of(limits.calls)),
            watches: pool(of(limits.watches)),
            conversations: pool(of(limits.conversations)),
        }
    }
}

impl Reservation {
    /// At once, or not at all.
    fn take(of_address: &Arc<Semaphore>, of_all: &Arc<Semaphore>, units: u32) -> Option<Reservation> {
        let of_address = Arc::clone(of_address).try_acquire_many_owned(units).ok()?;
        let of_all = Arc::clone(of_all).try_acquire_many_owned(units).ok()?;
        Some(Reservation { of_address: Some(of_address), of_all: Some(of_all) })
    }

    /// In the order of those who wait. First the address's own: an address that waits for itself takes nothing
    /// from others meanwhile.
    async fn wait(of_address: &Arc<Semaphore>, of_all: &Arc<Semaphore>, units: u32) -> Reservation {
        // They are never closed, so that there is always a permit in the end.
        let of_address = Arc::clone(of_address).acquire_many_owned(units).await.ok();
        let of_all = Arc::clone(of_all).acquire_many_owned(units).await.ok();
        Reservation { of_address, of_all }
    }

    /// How many bytes it is for.
    pub(crate) fn bytes(&self) -> usize {
        self.of_all.as_ref().map_or(0, |permit| permit.num_permits() * UNIT_BYTES)
    }

    /// Gives back what is beyond so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        for permit in [&mut self.of_address, &mut self.of_all].into_iter().flatten() {
            let too_many = permit.num_permits().saturating_sub(bytes.div_ceil(UNIT_BYTES));
            drop(permit.split(too_many));
        }
    }
}

/// What is larger than the whole share of an address takes all of it: it would wait for ever otherwise.
fn units(bytes: usize, limit: Limit) -> u32 {
    let units = bytes.div_ceil(UNIT_BYTES).min(limit.per_address / UNIT_BYTES);
    u32::try_from(units).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const MIB: usize = 1 << 20;

    fn shares() -> Shares {
        let limits =
            ShareLimits { request_bytes: Limit { per_address: 2 * MIB, in_all: 3 * MIB }, ..Default::default() };
        Shares::new(limits, ShareMetrics::default())
    }

    fn share(shares: &Shares, address: &str) -> Arc<Share> {
        shares.of(address.parse().unwrap())
    }

    async fn waits(share: &Share, bytes: usize) -> bool {
        timeout(Duration::from_secs(1), share.reserve_request(bytes)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_waits_for_itself_and_not_for_others() {
        let shares = shares();
        let (one, other) = (share(&shares, "192.0.2.1"), share(&shares, "192.0.2.2"));
        let held = one.reserve_request(2 * MIB).await;
        assert!(waits(&one, 1).await);
        assert!(!waits(&other, MIB).await);
        drop(held);
        assert!(!waits(&one, 2 * MIB).await);
    }

    #[tokio::test(start_paused = true)]
    async fn all_addresses_together_have_a_bound() {
        let shares = shares();
        let (one, other) = (share(&shares, "192.0.2.1"), share(&shares, "192.0.2.2"));
        let _held = one.reserve_request(2 * MIB).await;
        assert!(waits(&other, 2 * MIB).await);
        assert!(!waits(&other, MIB).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reservation_larger_than_a_share_takes_the_share() {
        let shares = shares();
        let one = share(&shares, "192.0.2.1");
        let mut held = one.reserve_request(99 * MIB).await;
        assert!(waits(&one, 1).await);
        assert_eq!(held.bytes(), 2 * MIB);
        held.shrink_to(MIB);
        assert_eq!(held.bytes(), MIB);
        assert!(!waits(&one, MIB).await);
        assert!(waits(&one, MIB + 1).await);
    }

    #[test]
    fn addresses_without_connections_are_not_remembered() {
        let shares = shares();
        let (one, same) = (share(&shares, "2001:db8::1"), share(&shares, "2001:db8::2"));
        assert!(Arc::ptr_eq(&one, &same));
        drop((one, same));
        assert!(shares.lock().is_empty());
    }
}
