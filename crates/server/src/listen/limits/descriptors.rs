use std::net::IpAddr;

use super::connection_slots::{ConnectionSlot, ConnectionSlots};

/// The most descriptors that are kept for what is no connection of a listener: listeners, files, the store's own
/// connections.
const MOST_RESERVED: usize = 64;

/// The most descriptors that are kept for operators.
const MOST_FOR_OPERATORS: usize = 64;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn take(descriptors: &Descriptors, used_for: For, count: usize, from: &str) -> Vec<ConnectionSlot> {
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
    fn a_process_with_few_descriptors_still_serves() {
        for granted in [8, 16, 64] {
            let descriptors = Descriptors::of(Some(granted));
            assert_eq!(take(&descriptors, For::Callers, 1, "192.0.2.1").len(), 1, "{granted}");
            assert_eq!(take(&descriptors, For::Operators, 1, "192.0.2.1").len(), 1, "{granted}");
        }
    }
}
