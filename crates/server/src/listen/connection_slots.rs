use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most descriptors reserved for other uses: listeners, files, connections to the store.
const MAX_RESERVED: usize = 64;

/// The most descriptors reserved for the admin listener: one address, which takes half of them, may hold all event
/// streams and still call the API.
const MAX_FOR_ADMIN: usize = 256;

/// A limit on connections, in total and per address. Clones share the state.
#[derive(Clone, Debug)]
pub(in crate::listen) struct ConnectionSlots(Arc<SlotState>);

#[derive(Debug)]
struct SlotState {
    in_all: usize,
    per_address: usize,
    taken: Mutex<SlotCounts>,
}

#[derive(Debug, Default)]
struct SlotCounts {
    in_all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Holds a slot until dropped.
#[derive(Debug)]
pub(in crate::listen) struct ConnectionSlot {
    slots: ConnectionSlots,
    address: IpAddr,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::listen) enum SlotRefusal {
    /// All slots are taken.
    InAll,
    /// The address has reached its limit.
    ForAddress,
    /// No file descriptor is left for it.
    ForDescriptor,
}

impl ConnectionSlots {
    pub(in crate::listen) fn new(in_all: usize, per_address: usize) -> ConnectionSlots {
        ConnectionSlots(Arc::new(SlotState { in_all, per_address, taken: Mutex::default() }))
    }

    /// Takes a slot for a connection from this address.
    pub(in crate::listen) fn take(&self, from: IpAddr) -> Result<ConnectionSlot, SlotRefusal> {
        let address = counted_address(from);
        let mut taken = self.lock();
        if taken.in_all >= self.0.in_all {
            return Err(SlotRefusal::InAll);
        }
        let by_address = taken.by_address.get(&address).copied().unwrap_or(0);
        if by_address >= self.0.per_address {
            return Err(SlotRefusal::ForAddress);
        }
        taken.in_all += 1;
        taken.by_address.insert(address, by_address + 1);
        Ok(ConnectionSlot { slots: self.clone(), address })
    }

    /// Nothing that holds the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, SlotCounts> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.in_all -= 1;
        if let Some(by_address) = taken.by_address.get_mut(&self.address) {
            *by_address -= 1;
            // Addresses without connections are removed, or the table would grow without bound.
            if *by_address == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

/// The file descriptors for connections of all listeners. Some are always left for the admin listener and for the
/// service itself. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors {
    callers: ConnectionSlots,
    admin: ConnectionSlots,
}

/// The use of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerUse {
    Callers,
    Admin,
}

impl Descriptors {
    /// Divides the process's descriptor limit; `None` is unlimited.
    pub(crate) fn of(granted: Option<usize>) -> Descriptors {
        let usable = usable(granted.unwrap_or(usize::MAX));
        let admin = MAX_FOR_ADMIN.min(usable / 8).max(1);
        // Half, so that one address leaves descriptors for the others.
        let slots = |in_all: usize| ConnectionSlots::new(in_all, in_all.div_ceil(2));
        Descriptors { callers: slots(usable.saturating_sub(admin)), admin: slots(admin) }
    }

    /// Takes a descriptor for a connection, if one is left.
    pub(in crate::listen) fn take(&self, used_for: ListenerUse, from: IpAddr) -> Option<ConnectionSlot> {
        let slots = match used_for {
            ListenerUse::Callers => &self.callers,
            ListenerUse::Admin => &self.admin,
        };
        slots.take(from).ok()
    }
}

/// Returns how many descriptors of a limit are available to connections.
pub fn usable(granted: usize) -> usize {
    granted - MAX_RESERVED.min(granted / 4)
}

/// Returns the address under which a connection is counted. One machine can have every address of an IPv6 /64 network.
pub(crate) fn counted_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(slots: &ConnectionSlots, from: &str) -> Result<ConnectionSlot, SlotRefusal> {
        slots.take(from.parse().unwrap())
    }

    #[test]
    fn one_address_leaves_slots_to_others() {
        let slots = ConnectionSlots::new(3, 2);
        let first = take(&slots, "192.0.2.1").unwrap();
        let _second = take(&slots, "::ffff:192.0.2.1").unwrap();
        assert_eq!(take(&slots, "192.0.2.1").unwrap_err(), SlotRefusal::ForAddress);
        let _third = take(&slots, "192.0.2.2").unwrap();
        assert_eq!(take(&slots, "192.0.2.2").unwrap_err(), SlotRefusal::InAll);
        drop(first);
        assert!(take(&slots, "192.0.2.1").is_ok());
    }

    #[test]
    fn ipv6_network_of_64_bits_is_one_address() {
        let slots = ConnectionSlots::new(9, 1);
        let _first = take(&slots, "2001:db8::1").unwrap();
        assert_eq!(take(&slots, "2001:db8::ffff:2").unwrap_err(), SlotRefusal::ForAddress);
        assert!(take(&slots, "2001:db8:0:1::1").is_ok());
    }

    #[test]
    fn closed_connections_release_their_slot() {
        let slots = ConnectionSlots::new(9, 9);
        for last in 0..200_u8 {
            drop(slots.take([192, 0, 2, last].into()));
        }
        let taken = slots.lock();
        assert_eq!((taken.in_all, taken.by_address.len()), (0, 0));
    }

    fn take_all(descriptors: &Descriptors, used_for: ListenerUse, count: usize, from: &str) -> Vec<ConnectionSlot> {
        (0..count).filter_map(|_| descriptors.take(used_for, from.parse().unwrap())).collect()
    }

    #[test]
    fn descriptors_are_left_for_other_addresses_and_for_admin() {
        let descriptors = Descriptors::of(Some(1_024));
        let one = take_all(&descriptors, ListenerUse::Callers, 2_000, "192.0.2.1");
        let other = take_all(&descriptors, ListenerUse::Callers, 2_000, "192.0.2.2");
        assert_eq!((one.len(), other.len()), (420, 420));
        assert_eq!(take_all(&descriptors, ListenerUse::Callers, 1, "192.0.2.3").len(), 0);
        assert_eq!(take_all(&descriptors, ListenerUse::Admin, 100, "192.0.2.1").len(), 60);
        drop(one);
        assert_eq!(take_all(&descriptors, ListenerUse::Callers, 1, "192.0.2.3").len(), 1);
    }

    #[test]
    fn process_with_few_descriptors_still_accepts_connections() {
        for granted in [8, 16, 64] {
            let descriptors = Descriptors::of(Some(granted));
            assert_eq!(take_all(&descriptors, ListenerUse::Callers, 1, "192.0.2.1").len(), 1, "{granted}");
            assert_eq!(take_all(&descriptors, ListenerUse::Admin, 1, "192.0.2.1").len(), 1, "{granted}");
        }
    }
}
