use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::counted_as::counted_as;

/// The most descriptors that are kept for what is no connection of a listener: listeners, files, the store's own
/// connections.
const MOST_RESERVED: usize = 64;

/// The most descriptors that are kept for operators.
const MOST_FOR_OPERATORS: usize = 64;

/// The descriptors that connections of all listeners may take, so that some are always left for operators and for
/// the service itself. All clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors {
    taken: Arc<Mutex<[Taken; 2]>>,
    limits: [Limit; 2],
}

/// Who a descriptor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Callers,
    Operators,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    in_all: usize,
    per_address: usize,
}

#[derive(Debug, Default)]
struct Taken {
    in_all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The descriptor of one connection, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Descriptor {
    taken: Arc<Mutex<[Taken; 2]>>,
    used_for: For,
    address: IpAddr,
}

impl Descriptors {
    /// Out of so many that the system grants to the process; `None` is as many as it likes.
    pub(crate) fn of(granted: Option<usize>) -> Descriptors {
        let usable = usable(granted.unwrap_or(usize::MAX));
        let operators = MOST_FOR_OPERATORS.min(usable / 8).max(1);
        // Half, so that one address never has what all others need.
        let limit = |in_all: usize| Limit { in_all, per_address: in_all.div_ceil(2) };
        Descriptors { taken: Arc::default(), limits: [limit(usable.saturating_sub(operators)), limit(operators)] }
    }

    /// One for a connection from there, if there is one left for it.
    pub(crate) fn take(&self, used_for: For, from: IpAddr) -> Option<Descriptor> {
        let address = counted_as(from);
        let limit = self.limits[used_for as usize];
        let taken = &mut lock(&self.taken)[used_for as usize];
        let by_address = taken.by_address.get(&address).copied().unwrap_or(0);
        if taken.in_all >= limit.in_all || by_address >= limit.per_address {
            return None;
        }
        taken.in_all += 1;
        taken.by_address.insert(address, by_address + 1);
        Some(Descriptor { taken: Arc::clone(&self.taken), used_for, address })
    }
}

/// How many of the descriptors that a process may have are for connections.
pub fn usable(granted: usize) -> usize {
    granted - MOST_RESERVED.min(granted / 4)
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let taken = &mut lock(&self.taken)[self.used_for as usize];
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

/// Nothing that holds the lock can panic halfway.
fn lock(taken: &Mutex<[Taken; 2]>) -> MutexGuard<'_, [Taken; 2]> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(descriptors: &Descriptors, used_for: For, count: usize, from: &str) -> Vec<Descriptor> {
        (0..count).filter_map(|_| descriptors.take(used_for, from.parse().unwrap())).collect()
    }

    #[test]
    fn one_address_leaves_half_of_them_and_callers_leave_those_of_operators() {
        let descriptors = Descriptors::of(Some(1_024));
        let one = take(&descriptors, For::Callers, 2_000, "192.0.2.1");
        let other = take(&descriptors, For::Callers, 2_000, "192.0.2.2");
        assert_eq!((one.len(), other.len()), (448, 448));
        assert_eq!(take(&descriptors, For::Callers, 1, "192.0.2.3").len(), 0);
        assert_eq!(take(&descriptors, For::Operators, 100, "192.0.2.1").len(), 32);
        drop(one);
        assert_eq!(take(&descriptors, For::Callers, 1, "192.0.2.3").len(), 1);
    }

    #[test]
    fn closed_connections_leave_nothing_behind() {
        let descriptors = Descriptors::of(None);
        drop(take(&descriptors, For::Callers, 200, "192.0.2.1"));
        let taken = lock(&descriptors.taken);
        assert!(taken.iter().all(|taken| taken.in_all == 0 && taken.by_address.is_empty()));
    }

    #[test]
    fn a_process_with_few_descriptors_still_serves() {
        for granted in [8, 16, 64] {
            let descriptors = Descriptors::of(Some(granted));
            assert_eq!(take(&descriptors, For::Callers, 1, "192.0.2.1").len(), 1, "{granted}");
            assert_eq!(take(&descriptors, For::Operators, 1, "192.0.2.1").len(), 1, "{granted}");
        }
    }
}
