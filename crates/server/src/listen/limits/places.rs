use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection_limits::ConnectionLimits;
use super::counted_as::counted_as;

/// The places for connections of one listener.
#[derive(Clone, Debug)]
pub(in crate::listen) struct Places {
    taken: Arc<Mutex<Taken>>,
    in_all: usize,
    per_address: usize,
}

#[derive(Debug, Default)]
struct Taken {
    in_all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The place of one connection, free again when it is dropped.
#[derive(Debug)]
pub(in crate::listen) struct Place {
    taken: Arc<Mutex<Taken>>,
    address: IpAddr,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::listen) enum NoPlace {
    /// All are taken.
    InAll,
    /// This address has taken as many as one address may.
    ForAddress,
    /// The process has no descriptor left for it.
    ForDescriptor,
}

impl Places {
    pub(in crate::listen) fn new(limits: &ConnectionLimits) -> Places {
        Places { taken: Arc::default(), in_all: limits.connections, per_address: limits.connections_per_address }
    }

    /// A place for a connection from there.
    pub(in crate::listen) fn take(&self, from: IpAddr) -> Result<Place, NoPlace> {
        let address = counted_as(from);
        let mut taken = lock(&self.taken);
        if taken.in_all >= self.in_all {
            return Err(NoPlace::InAll);
        }
        let by_address = taken.by_address.get(&address).copied().unwrap_or(0);
        if by_address >= self.per_address {
            return Err(NoPlace::ForAddress);
        }
        taken.in_all += 1;
        taken.by_address.insert(address, by_address + 1);
        Ok(Place { taken: Arc::clone(&self.taken), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
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
fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(connections: usize, connections_per_address: usize) -> Places {
        Places::new(&ConnectionLimits { connections, connections_per_address, ..ConnectionLimits::default() })
    }

    fn take(places: &Places, from: &str) -> Result<Place, NoPlace> {
        places.take(from.parse().unwrap())
    }

    #[test]
    fn one_address_leaves_places_to_others() {
        let places = places(3, 2);
        let first = take(&places, "192.0.2.1").unwrap();
        let _second = take(&places, "::ffff:192.0.2.1").unwrap();
        assert_eq!(take(&places, "192.0.2.1").unwrap_err(), NoPlace::ForAddress);
        let _third = take(&places, "192.0.2.2").unwrap();
        assert_eq!(take(&places, "192.0.2.2").unwrap_err(), NoPlace::InAll);
        drop(first);
        assert!(take(&places, "192.0.2.1").is_ok());
    }

    #[test]
    fn a_network_of_64_bits_is_one_address() {
        let places = places(9, 1);
        let _first = take(&places, "2001:db8::1").unwrap();
        assert_eq!(take(&places, "2001:db8::ffff:2").unwrap_err(), NoPlace::ForAddress);
        assert!(take(&places, "2001:db8:0:1::1").is_ok());
    }

    #[test]
    fn who_has_left_is_forgotten() {
        let places = places(9, 9);
        for last in 0..200_u8 {
            drop(places.take([192, 0, 2, last].into()));
        }
        assert_eq!(lock(&places.taken).by_address.len(), 0);
    }
}
