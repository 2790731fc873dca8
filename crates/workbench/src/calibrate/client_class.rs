//! What is measured for a client in a class of endpoints.

use std::io;

use super::burst_ladder::{BurstLadder, RungRates};
use super::endpoint_class::{CLASS_COUNT, EndpointClass, EndpointClasses};
use super::trace::RequestTrace;
use crate::tally::peak_rates::{PeakRates, Peaks};
use crate::tally::{HOUR_NS, MINUTE_NS, to_u32};

/// The shortest activity from which a sustained rate follows.
const MIN_ACTIVE_NS: u64 = 10 * MINUTE_NS;

/// The clients of one key by class of endpoints.
pub(super) struct KeyClients {
    /// The position in `members` plus 1 of each client and class; 0 for none.
    positions: Vec<[u32; CLASS_COUNT]>,
    pub(super) members: Vec<ClassMember>,
}

/// A client in a class of endpoints.
pub(super) struct ClassMember {
    pub(super) client: u32,
    pub(super) class: EndpointClass,
    pub(super) requests: u64,
    /// Requests that were answered by 401 or 403.
    pub(super) denied: u64,
    first_ns: u64,
    last_ns: u64,
    peaks: PeakRates,
}

impl KeyClients {
    /// Returns the positions of a client's members, one for each class in which it sent requests.
    pub(super) fn positions_of(&self, client: u32) -> impl Iterator<Item = usize> {
        self.positions[client as usize].into_iter().filter(|position| *position > 0).map(|at| at as usize - 1)
    }
}

impl ClassMember {
    fn new(client: u32, class: EndpointClass, first_ns: u64) -> ClassMember {
        let peaks = PeakRates::default();
        ClassMember { client, class, requests: 0, denied: 0, first_ns, last_ns: first_ns, peaks }
    }

    pub(super) fn peaks(&self) -> Peaks {
        self.peaks.peaks()
    }

    /// Returns the requests an hour from the first to the last one, if they are at least ten minutes apart.
    pub(super) fn sustained_per_hour(&self) -> Option<u64> {
        let active_ns = self.last_ns - self.first_ns;
        (active_ns >= MIN_ACTIVE_NS)
            .then(|| (u128::from(self.requests - 1) * u128::from(HOUR_NS) / u128::from(active_ns)) as u64)
    }
}

/// Measures the clients of each key.
pub(super) fn measure(
    trace: &mut RequestTrace,
    classes: &EndpointClasses,
    clients: &[usize],
) -> io::Result<Vec<KeyClients>> {
    let mut keys: Vec<KeyClients> = clients
        .iter()
        .map(|count| KeyClients { positions: vec![[0; CLASS_COUNT]; *count], members: Vec::new() })
        .collect();
    trace.replay(|request| {
        let class = classes.class(request.endpoint);
        for (key, client) in keys.iter_mut().zip(&request.clients) {
            let Some(client) = *client else { continue };
            let position = &mut key.positions[client as usize][class as usize];
            if *position == 0 {
                key.members.push(ClassMember::new(client, class, request.time_ns));
                *position = to_u32(key.members.len());
            }
            let member = &mut key.members[*position as usize - 1];
            member.requests += 1;
            member.denied += u64::from(request.is_denied);
            member.last_ns = request.time_ns;
            member.peaks.count(request.time_ns);
        }
    })?;
    Ok(keys)
}

/// Measures the smallest buckets of all members at the rates of their group. Groups without rates are skipped.
pub(super) fn measure_bursts(
    trace: &mut RequestTrace,
    classes: &EndpointClasses,
    keys: &[KeyClients],
    rates: &[[Option<RungRates>; CLASS_COUNT]],
) -> io::Result<Vec<Vec<BurstLadder>>> {
    let mut ladders: Vec<Vec<BurstLadder>> =
        keys.iter().map(|key| vec![BurstLadder::default(); key.members.len()]).collect();
    trace.replay(|request| {
        let class = classes.class(request.endpoint) as usize;
        for (at, client) in request.clients.iter().enumerate() {
            let (Some(client), Some(rates)) = (*client, &rates[at][class]) else { continue };
            let member = keys[at].positions[client as usize][class] as usize - 1;
            ladders[at][member].count(request.time_ns, rates);
        }
    })?;
    Ok(ladders)
}

/// Calls `on_request` with the key, the member and the time of every request.
pub(super) fn replay_members(
    trace: &mut RequestTrace,
    classes: &EndpointClasses,
    keys: &[KeyClients],
    mut on_request: impl FnMut(usize, usize, u64),
) -> io::Result<()> {
    trace.replay(|request| {
        let class = classes.class(request.endpoint) as usize;
        for (at, client) in request.clients.iter().enumerate() {
            let Some(client) = *client else { continue };
            let member = keys[at].positions[client as usize][class] as usize - 1;
            on_request(at, member, request.time_ns);
        }
    })
}
