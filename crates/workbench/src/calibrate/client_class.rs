//! What is measured for a client in a class of endpoints.

use std::hint::black_box;
use std::io;

use super::burst_ladder::{BurstLadder, RungRates};
use super::endpoint_class::{CLASS_COUNT, EndpointClass, EndpointClasses};
use super::trace::{RequestTrace, TracedRequest};
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
    trace.replay(|batch| {
        for (key, clients) in keys.iter_mut().zip(&batch.clients) {
            key.touch(&batch.requests, clients, classes);
            for (request, client) in batch.requests.iter().zip(clients) {
                if let Some(client) = *client {
                    key.count(request, client, classes.class(request.endpoint));
                }
            }
        }
    })?;
    Ok(keys)
}

impl KeyClients {
    /// Reads the figures of clients, and thereby brings them into the cache.
    fn touch(&self, requests: &[TracedRequest], clients: &[Option<u32>], classes: &EndpointClasses) {
        let position = |(request, client): (&TracedRequest, &Option<u32>)| {
            client.map_or(0, |client| self.positions[client as usize][classes.class(request.endpoint) as usize])
        };
        let positions = requests.iter().zip(clients).map(position);
        let members = positions.filter_map(|position| self.members.get((position as usize).wrapping_sub(1)));
        black_box(members.map(|member| member.requests ^ u64::from(member.peaks().in_hour)).fold(0, u64::wrapping_add));
    }

    fn count(&mut self, request: &TracedRequest, client: u32, class: EndpointClass) {
        let position = &mut self.positions[client as usize][class as usize];
        if *position == 0 {
            self.members.push(ClassMember::new(client, class, request.time_ns));
            *position = to_u32(self.members.len());
        }
        let member = &mut self.members[*position as usize - 1];
        member.requests += 1;
        member.denied += u64::from(request.is_denied);
        member.last_ns = request.time_ns;
        member.peaks.count(request.time_ns);
    }
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
    let touch = |ladders: &Vec<Vec<BurstLadder>>, key: usize, member: usize| ladders[key][member].touch();
    replay_members(trace, classes, keys, &mut ladders, touch, |ladders, key, member, request| {
        if let Some(rates) = &rates[key][member.class] {
            ladders[key][member.position].count(request.time_ns, rates);
        }
    })?;
    Ok(ladders)
}

/// A member of a key, for a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberAt {
    pub(super) position: usize,
    pub(super) class: usize,
}

/// Calls `on_request` with the key and the member of every request. Before, it calls `touch` for some successive
/// requests, which reads a figure of the member from `figures` and so brings it into the cache.
pub(super) fn replay_members<F>(
    trace: &mut RequestTrace,
    classes: &EndpointClasses,
    keys: &[KeyClients],
    figures: &mut F,
    touch: impl Fn(&F, usize, usize) -> u64,
    mut on_request: impl FnMut(&mut F, usize, MemberAt, &TracedRequest),
) -> io::Result<()> {
    let mut members: Vec<Option<MemberAt>> = Vec::new();
    trace.replay(|batch| {
        for (key, (clients, of_key)) in batch.clients.iter().zip(keys).enumerate() {
            members.clear();
            members.extend(batch.requests.iter().zip(clients).map(|(request, client)| {
                let class = classes.class(request.endpoint) as usize;
                let position = of_key.positions[(*client)? as usize][class] as usize - 1;
                Some(MemberAt { position, class })
            }));
            black_box(members.iter().flatten().map(|at| touch(figures, key, at.position)).fold(0, u64::wrapping_add));
            for (request, member) in batch.requests.iter().zip(&members) {
                if let Some(member) = *member {
                    on_request(figures, key, member, request);
                }
            }
        }
    })
}
