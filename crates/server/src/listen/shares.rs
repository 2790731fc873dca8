use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection_metrics::ShareMetrics;
use super::connection_slots::counted_as;

/// Bytes are counted in kilobytes, because a semaphore counts no further than 32 bits.
const UNIT_BYTES: usize = 1 << 10;

/// What connections hold beside themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Bodies and commands that are being read, in bytes. Who holds them must not wait for others of them, or all
    /// might wait for each other.
    RequestBytes,
    /// Answers to batches that are not written yet, in bytes. Who holds bytes of a request may wait for them; who
    /// holds an answer waits only for its client.
    AnswerBytes,
    /// Calls of gRPC beyond the few that every connection may have.
    Calls,
    /// Calls of gRPC that stay open for as long as the client wishes.
    Watches,
    /// Calls of gRPC that ask again and again.
    Conversations,
}

const RESOURCES: usize = 5;

/// What one address may hold over all listeners, and what all addresses may hold together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareLimits {
    /// Of each resource, by its number.
    of: [Limit; RESOURCES],
    /// How much that takes long is done for one address at the same time.
    turns: usize,
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
            of: [48 << 20, 48 << 20, 8 << 10, 1 << 10, 1 << 5].map(Limit::new),
            // All processors may work for one address, but nothing else of it stands in line before others.
            turns: thread::available_parallelism().map_or(1, NonZero::get),
        }
    }
}

impl Limit {
    const ADDRESSES: usize = 4;

    fn new(per_address: usize) -> Limit {
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

/// What is left of each resource, by its number.
type Pools = [Arc<Semaphore>; RESOURCES];

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
        let in_all = pools(&limits, |limit| limit.in_all);
        Shares(Arc::new(State { limits, in_all, by_address: Mutex::default(), metrics }))
    }

    /// The share of an address. It is the same for all its connections.
    pub(crate) fn of(&self, address: IpAddr) -> Arc<Share> {
        let address = counted_as(address);
        let mut by_address = self.lock();
        if let Some(share) = by_address.get(&address).and_then(Weak::upgrade) {
            return share;
        }
        let own = pools(&self.0.limits, |limit| limit.per_address);
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

    /// One of a resource, at once or not at all.
    pub(crate) fn take(&self, resource: Resource) -> Option<Reservation> {
        self.take_units(resource, 1)
    }

    /// Waits until so many bytes may be held.
    pub(crate) async fn reserve(&self, resource: Resource, bytes: usize) -> Reservation {
        // What is larger than the whole share of an address takes all of it: it would wait for ever otherwise.
        let per_address = self.shares.0.limits.of[resource as usize].per_address;
        let units = bytes.div_ceil(UNIT_BYTES).min(per_address / UNIT_BYTES);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        match self.take_units(resource, units) {
            Some(reservation) => reservation,
            None => self.wait_for(resource, units).await,
        }
    }

    /// Waits for a place for a call.
    pub(crate) async fn wait_for_call(self: Arc<Share>) -> Reservation {
        self.wait_for(Resource::Calls, 1).await
    }

    fn take_units(&self, resource: Resource, units: u32) -> Option<Reservation> {
        let [of_address, of_all] = self.pools(resource);
        let of_address = of_address.try_acquire_many_owned(units).ok()?;
        let of_all = of_all.try_acquire_many_owned(units).ok()?;
        Some(Reservation { of_address: Some(of_address), of_all: Some(of_all) })
    }

    /// In the order of those who wait. First the address's own: an address that waits for itself takes nothing
    /// from others meanwhile.
    async fn wait_for(&self, resource: Resource, units: u32) -> Reservation {
        let metrics = &self.shares.0.metrics;
        match resource {
            Resource::RequestBytes => metrics.request_waits.inc(),
            Resource::AnswerBytes => metrics.answer_waits.inc(),
            Resource::Calls => metrics.call_waits.inc(),
            Resource::Watches | Resource::Conversations => {}
        }
        // They are never closed, so that there is always a permit in the end.
        let [of_address, of_all] = self.pools(resource);
        let of_address = of_address.acquire_many_owned(units).await.ok();
        Reservation { of_address, of_all: of_all.acquire_many_owned(units).await.ok() }
    }

    /// What is left of a resource for the address, and for all.
    fn pools(&self, resource: Resource) -> [Arc<Semaphore>; 2] {
        [&self.own, &self.shares.0.in_all].map(|pools| Arc::clone(&pools[resource as usize]))
    }

    /// Whether more calls should be read.
    pub(crate) fn room_for_calls(&self) -> Room {
        let left = [&self.own, &self.shares.0.in_all].map(|pools| pools[Resource::Calls as usize].available_permits());
        match left[0].min(left[1]) {
            0 => Room::None,
            few if few < self.shares.0.limits.of[Resource::Calls as usize].per_address / 8 => Room::Scarce,
            _ => Room::Plenty,
        }
    }

    /// A turn at once, or none.
    pub(crate) fn try_turn(&self) -> Option<Turn> {
        Arc::clone(&self.turns).try_acquire_owned().ok().map(|permit| Turn(Some(permit)))
    }

    /// Waits for a turn to do something that takes long. Others of the same address wait meanwhile, and nobody else.
    pub(crate) async fn turn(&self) -> Turn {
        Turn(Arc::clone(&self.turns).acquire_owned().await.ok())
    }
}

fn pools(limits: &ShareLimits, of: impl Fn(Limit) -> usize) -> Pools {
    let unit = |resource: usize| if resource <= Resource::AnswerBytes as usize { UNIT_BYTES } else { 1 };
    let pool = |resource: usize| of(limits.of[resource]) / unit(resource);
    std::array::from_fn(|resource| Arc::new(Semaphore::new(pool(resource).min(Semaphore::MAX_PERMITS))))
}

impl Reservation {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const MIB: usize = 1 << 20;

    fn shares() -> Shares {
        let mut limits = ShareLimits::default();
        limits.of[Resource::RequestBytes as usize] = Limit { per_address: 2 * MIB, in_all: 3 * MIB };
        Shares::new(limits, ShareMetrics::default())
    }

    fn share(shares: &Shares, address: &str) -> Arc<Share> {
        shares.of(address.parse().unwrap())
    }

    async fn waits(share: &Share, bytes: usize) -> bool {
        timeout(Duration::from_secs(1), share.reserve(Resource::RequestBytes, bytes)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_waits_for_itself_and_not_for_others() {
        let shares = shares();
        let (one, other) = (share(&shares, "192.0.2.1"), share(&shares, "192.0.2.2"));
        let held = one.reserve(Resource::RequestBytes, 2 * MIB).await;
        assert!(waits(&one, 1).await);
        assert!(!waits(&other, MIB).await);
        drop(held);
        assert!(!waits(&one, 2 * MIB).await);
    }

    #[tokio::test(start_paused = true)]
    async fn all_addresses_together_have_a_bound() {
        let shares = shares();
        let (one, other) = (share(&shares, "192.0.2.1"), share(&shares, "192.0.2.2"));
        let _held = one.reserve(Resource::RequestBytes, 2 * MIB).await;
        assert!(waits(&other, 2 * MIB).await);
        assert!(!waits(&other, MIB).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reservation_larger_than_a_share_takes_the_share() {
        let shares = shares();
        let one = share(&shares, "192.0.2.1");
        let mut held = one.reserve(Resource::RequestBytes, 99 * MIB).await;
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
