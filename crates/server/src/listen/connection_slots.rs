use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most descriptors that are kept for what is no connection of a listener: listeners, files, the store's own
/// connections.
const MOST_RESERVED: usize = 64;

/// The most descriptors that are kept for operators.
const MOST_FOR_OPERATORS: usize = 64;

/// A limit on connections, in all and for each address. All clones are the same.
#[derive(Clone, Debug)]
pub(in crate::listen) struct ConnectionSlots(Arc<State>);

#[derive(Debug)]
struct State {
    in_all: usize,
    per_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    in_all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Counts one connection until it is dropped.
#[derive(Debug)]
pub(in crate::listen) struct ConnectionSlot {
    slots: ConnectionSlots,
    address: IpAddr,
}

/// Why a connection gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::listen) enum SlotRefusal {
    /// All are taken.
    InAll,
    /// This address has taken as many as one address may.
    ForAddress,
    /// The process has no descriptor left for it.
    ForDescriptor,
}

impl ConnectionSlots {
    pub(in crate::listen) fn new(in_all: usize, per_address: usize) -> ConnectionSlots {
        ConnectionSlots(Arc::new(State { in_all, per_address, taken: Mutex::default() }))
    }

    /// Takes a slot for a connection from this address.
    pub(in crate::listen) fn take(&self, from: IpAddr) -> Result<ConnectionSlot, SlotRefusal> {
        let address = counted_as(from);
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
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.in_all -= 1;
        if let Some(by_address) = taken.by_address.get_mut(&self.address) {
            *by_address -= 1;
            // Addresses without connections are not remembered, or the table would grow without end.
            if *by_address == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

/// The descriptors that connections of all listeners may take, so that some are always left for operators and for
/// the service itself. All clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors {
    callers: ConnectionSlots,
    operators: ConnectionSlots,
}

/// Who a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Callers,
    Operators,
}

impl Descriptors {
    /// Out of so many that the system grants to the process; `None` is as many as it likes.
    pub(crate) fn of(granted: Option<usize>) -> Descriptors {
        let usable = usable(granted.unwrap_or(usize::MAX));
        let operators = MOST_FOR_OPERATORS.min(usable / 8).max(1);
        // Half, so that one address never has what all others need.
        let slots = |in_all: usize| ConnectionSlots::new(in_all, in_all.div_ceil(2));
        Descriptors { callers: slots(usable.saturating_sub(operators)), operators: slots(operators) }
    }

    /// One for a connection from there, if there is one left for it.
    pub(in crate::listen) fn take(&self, used_for: For, from: IpAddr) -> Option<ConnectionSlot> {
        let slots = match used_for {
            For::Callers => &self.callers,
            For::Operators => &self.operators,
        };
        slots.take(from).ok()
    }
}

/// How many of the descriptors that a process may have are for connections.
pub fn usable(granted: usize) -> usize {
    granted - MOST_RESERVED.min(granted / 4)
}

/// The address that a connection is counted under. One machine can have every address of an IPv6 network of 64 bits.
pub(crate) fn counted_as(address: IpAddr) -> IpAddr {
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
    fn a_network_of_64_bits_is_one_address() {
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

    fn take_all(descriptors: &Descriptors, used_for: For, count: usize, from: &str) -> Vec<ConnectionSlot> {
        (0..count).filter_map(|_| descriptors.take(used_for, from.parse().unwrap())).collect()
    }

    #[test]
    fn one_address_leaves_half_of_them_and_callers_leave_those_of_operators() {
        let descriptors = Descriptors::of(Some(1_024));
        let one = take_all(&descriptors, For::Callers, 2_000, "192.0.2.1");
        let other = take_all(&descriptors, For::Callers, 2_000, "192.0.2.2");
        assert_eq!((one.len(), other.len()), (448, 448));
        assert_eq!(take_all(&descriptors, For::Callers, 1, "192.0.2.3").len(), 0);
        assert_eq!(take_all(&descriptors, For::Operators, 100, "192.0.2.1").len(), 32);
        drop(one);
        assert_eq!(take_all(&descriptors, For::Callers, 1, "192.0.2.3").len(), 1);
    }

    #[test]
    fn a_process_with_few_descriptors_still_serves() {
        for granted in [8, 16, 64] {
            let descriptors = Descriptors::of(Some(granted));
            assert_eq!(take_all(&descriptors, For::Callers, 1, "192.0.2.1").len(), 1, "{granted}");
            assert_eq!(take_all(&descriptors, For::Operators, 1, "192.0.2.1").len(), 1, "{granted}");
        }
    }
}
