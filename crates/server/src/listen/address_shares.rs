use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection_metrics::ShareMetrics;
use super::connection_slots::counted_address;

/// Bytes are counted in KiB, because a semaphore counts at most 32 bits.
const UNIT_BYTES: usize = 1 << 10;

/// A resource that connections use beside their slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Bodies and commands being read, in bytes. A holder must not wait for more of them, to avoid a deadlock.
    RequestBytes,
    /// Responses to batches that are not fully written, in bytes. A holder of request bytes may wait for them; a
    /// holder of response bytes waits only for its client.
    ResponseBytes,
    /// gRPC calls beyond the free ones of each connection.
    Calls,
    /// Long-lived `Health/Watch` streams.
    Watches,
    /// Server reflection streams.
    ReflectionStreams,
}

const RESOURCES: usize = 5;

/// Resource limits per address over all listeners, and in total.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressShareLimits {
    /// The limit of each resource, by index.
    of: [ResourceLimit; RESOURCES],
    /// How many expensive operations run for one address at the same time.
    turns: usize,
}

/// A limit per address and in total.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceLimit {
    pub(crate) per_address: usize,
    pub(crate) in_all: usize,
}

/// Including what a thousand connections use, less than 256 MB for one address. One address has at most a quarter of
/// each resource.
impl Default for AddressShareLimits {
    fn default() -> AddressShareLimits {
        AddressShareLimits {
            of: [48 << 20, 48 << 20, 8 << 10, 1 << 10, 1 << 5].map(ResourceLimit::new),
            // All processors may work for one address, but its queue does not delay other addresses.
            turns: thread::available_parallelism().map_or(1, NonZero::get),
        }
    }
}

impl ResourceLimit {
    const ADDRESSES: usize = 4;

    fn new(per_address: usize) -> ResourceLimit {
        ResourceLimit { per_address, in_all: ResourceLimit::ADDRESSES * per_address }
    }
}

/// Resources in use, by address. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct AddressShares(Arc<SharesState>);

#[derive(Debug)]
struct SharesState {
    limits: AddressShareLimits,
    in_all: Pools,
    by_address: Mutex<HashMap<IpAddr, Weak<AddressShare>>>,
    metrics: ShareMetrics,
}

/// The resources that the connections of one address share.
#[derive(Debug)]
pub(crate) struct AddressShare {
    address: IpAddr,
    own: Pools,
    turns: Arc<Semaphore>,
    shares: AddressShares,
}

/// The available units of each resource, by index.
type Pools = [Arc<Semaphore>; RESOURCES];

/// Units of a resource, taken from the address and from the total; released when dropped.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    of_address: Option<OwnedSemaphorePermit>,
    of_all: Option<OwnedSemaphorePermit>,
}

/// Permission to run an expensive operation for an address; released when dropped.
#[derive(Debug)]
pub(crate) struct WorkTurn(#[expect(dead_code, reason = "only held")] Option<OwnedSemaphorePermit>);

/// The remaining capacity of an address for calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallCapacity {
    Plenty,
    Scarce,
    None,
}

impl AddressShares {
    pub(crate) fn new(limits: AddressShareLimits, metrics: ShareMetrics) -> AddressShares {
        let in_all = pools(&limits, |limit| limit.in_all);
        AddressShares(Arc::new(SharesState { limits, in_all, by_address: Mutex::default(), metrics }))
    }

    /// Returns the share of an address, common to all its connections.
    pub(crate) fn of(&self, address: IpAddr) -> Arc<AddressShare> {
        let address = counted_address(address);
        let mut by_address = self.lock();
        if let Some(share) = by_address.get(&address).and_then(Weak::upgrade) {
            return share;
        }
        let own = pools(&self.0.limits, |limit| limit.per_address);
        let turns = Arc::new(Semaphore::new(self.0.limits.turns));
        let share = Arc::new(AddressShare { address, own, turns, shares: self.clone() });
        by_address.insert(address, Arc::downgrade(&share));
        share
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Weak<AddressShare>>> {
        self.0.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unused shares are removed, or the table would grow without bound.
impl Drop for AddressShare {
    fn drop(&mut self) {
        let mut by_address = self.shares.lock();
        // The address may have a new share meanwhile.
        if by_address.get(&self.address).is_some_and(|share| share.strong_count() == 0) {
            by_address.remove(&self.address);
        }
    }
}

impl AddressShare {
    /// Creates a share for one connection only.
    pub(crate) fn alone() -> Arc<AddressShare> {
        let unspecified = IpAddr::from([0, 0, 0, 0]);
        AddressShares::new(AddressShareLimits::default(), ShareMetrics::default()).of(unspecified)
    }

    /// Takes one unit of a resource without waiting.
    pub(crate) fn take(&self, resource: Resource) -> Option<Reservation> {
        self.take_units(resource, 1)
    }

    /// Waits until this many bytes can be reserved.
    pub(crate) async fn reserve(&self, resource: Resource, bytes: usize) -> Reservation {
        // A request larger than the address's limit takes all of it: otherwise it would wait forever.
        let per_address = self.shares.0.limits.of[resource as usize].per_address;
        let units = bytes.div_ceil(UNIT_BYTES).min(per_address / UNIT_BYTES);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        match self.take_units(resource, units) {
            Some(reservation) => reservation,
            None => self.wait_for(resource, units).await,
        }
    }

    /// Waits for a call slot.
    pub(crate) async fn wait_for_call(self: Arc<AddressShare>) -> Reservation {
        self.wait_for(Resource::Calls, 1).await
    }

    fn take_units(&self, resource: Resource, units: u32) -> Option<Reservation> {
        let [of_address, of_all] = self.pools(resource);
        let of_address = of_address.try_acquire_many_owned(units).ok()?;
        let of_all = of_all.try_acquire_many_owned(units).ok()?;
        Some(Reservation { of_address: Some(of_address), of_all: Some(of_all) })
    }

    /// First in, first out. The address's own pool comes first: an address that waits for its own reservations takes
    /// nothing from others.
    async fn wait_for(&self, resource: Resource, units: u32) -> Reservation {
        let metrics = &self.shares.0.metrics;
        match resource {
            Resource::RequestBytes => metrics.request_waits.inc(),
            Resource::ResponseBytes => metrics.response_waits.inc(),
            Resource::Calls => metrics.call_waits.inc(),
            Resource::Watches | Resource::ReflectionStreams => {}
        }
        // The semaphores are never closed, so acquiring never fails.
        let [of_address, of_all] = self.pools(resource);
        let of_address = of_address.acquire_many_owned(units).await.ok();
        Reservation { of_address, of_all: of_all.acquire_many_owned(units).await.ok() }
    }

    /// Returns the pools of the address and of all addresses.
    fn pools(&self, resource: Resource) -> [Arc<Semaphore>; 2] {
        [&self.own, &self.shares.0.in_all].map(|pools| Arc::clone(&pools[resource as usize]))
    }

    /// Returns how many more calls should be read.
    pub(crate) fn call_capacity(&self) -> CallCapacity {
        let left = [&self.own, &self.shares.0.in_all].map(|pools| pools[Resource::Calls as usize].available_permits());
        match left[0].min(left[1]) {
            0 => CallCapacity::None,
            few if few < self.shares.0.limits.of[Resource::Calls as usize].per_address / 8 => CallCapacity::Scarce,
            _ => CallCapacity::Plenty,
        }
    }

    /// Takes a turn without waiting.
    pub(crate) fn try_turn(&self) -> Option<WorkTurn> {
        Arc::clone(&self.turns).try_acquire_owned().ok().map(|permit| WorkTurn(Some(permit)))
    }

    /// Waits for a turn to run an expensive operation. Only other work of the same address waits meanwhile.
    pub(crate) async fn turn(&self) -> WorkTurn {
        WorkTurn(Arc::clone(&self.turns).acquire_owned().await.ok())
    }
}

fn pools(limits: &AddressShareLimits, of: impl Fn(ResourceLimit) -> usize) -> Pools {
    let unit = |resource: usize| if resource <= Resource::ResponseBytes as usize { UNIT_BYTES } else { 1 };
    let pool = |resource: usize| of(limits.of[resource]) / unit(resource);
    std::array::from_fn(|resource| Arc::new(Semaphore::new(pool(resource).min(Semaphore::MAX_PERMITS))))
}

impl Reservation {
    /// Returns the reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.of_all.as_ref().map_or(0, |permit| permit.num_permits() * UNIT_BYTES)
    }

    /// Releases what exceeds this many bytes.
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

    fn shares() -> AddressShares {
        let mut limits = AddressShareLimits::default();
        limits.of[Resource::RequestBytes as usize] = ResourceLimit { per_address: 2 * MIB, in_all: 3 * MIB };
        AddressShares::new(limits, ShareMetrics::default())
    }

    fn share(shares: &AddressShares, address: &str) -> Arc<AddressShare> {
        shares.of(address.parse().unwrap())
    }

    async fn waits(share: &AddressShare, bytes: usize) -> bool {
        timeout(Duration::from_secs(1), share.reserve(Resource::RequestBytes, bytes)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn address_waits_for_its_own_reservations_only() {
        let shares = shares();
        let (one, other) = (share(&shares, "192.0.2.1"), share(&shares, "192.0.2.2"));
        let held = one.reserve(Resource::RequestBytes, 2 * MIB).await;
        assert!(waits(&one, 1).await);
        assert!(!waits(&other, MIB).await);
        drop(held);
        assert!(!waits(&one, 2 * MIB).await);
    }

    #[tokio::test(start_paused = true)]
    async fn all_addresses_together_are_limited() {
        let shares = shares();
        let (one, other) = (share(&shares, "192.0.2.1"), share(&shares, "192.0.2.2"));
        let _held = one.reserve(Resource::RequestBytes, 2 * MIB).await;
        assert!(waits(&other, 2 * MIB).await);
        assert!(!waits(&other, MIB).await);
    }

    #[tokio::test(start_paused = true)]
    async fn reservation_larger_than_the_share_takes_all_of_it() {
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
    fn addresses_without_connections_are_removed() {
        let shares = shares();
        let (one, same) = (share(&shares, "2001:db8::1"), share(&shares, "2001:db8::2"));
        assert!(Arc::ptr_eq(&one, &same));
        drop((one, same));
        assert!(shares.lock().is_empty());
    }
}
