//! Clients that share a limit without knowing of each other, in virtual time: the pace of each, and a real limiter.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, UNIX_EPOCH};

use tollgate_policy::Request;

use super::pace::{AnswerKind, Departure, Pace};
use super::random::JitterSource;
use super::server_hint::ServerHint;
use crate::limiter::Limiter;
use crate::{AlgorithmKind, ManualClock, rule};

const S_NS: u64 = 1_000_000_000;
const START_NS: u64 = 1_700_000_000 * S_NS;
const CEILING_NS: u64 = 120 * S_NS;

/// A number of clients that send as much as they may, one request at a time.
struct Simulation {
    limit: &'static str,
    algorithm: AlgorithmKind,
    clients: usize,
    /// Whether each client has a key of its own.
    own_keys: bool,
    latency_ns: u64,
    seed: u64,
    seconds: u64,
}

/// What happened after the first fifth of the time.
#[derive(Debug, Default)]
struct Report {
    accepted: u64,
    refused: u64,
    by_client: Vec<u64>,
    arrivals_ns: Vec<u64>,
    measured_ns: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    MayDepart,
    Arrives,
    Returns,
}

impl Simulation {
    fn run(&self) -> Report {
        let clock = ManualClock::at(START_NS);
        let limit = rule("shared").per("user").limit(self.limit).algorithm(self.algorithm);
        let server = Limiter::builder().rule(limit).build_with_clock(clock.clone()).unwrap();
        let mut paces: Vec<_> = (0..self.clients)
            .map(|at| Pace::new(CEILING_NS, JitterSource::seeded(self.seed * 1_000_003 + at as u64)))
            .collect();
        let names: Vec<_> =
            (0..self.clients).map(|at| if self.own_keys { at.to_string() } else { "all".into() }).collect();
        let mut in_flight: Vec<Option<(Departure, AnswerKind, ServerHint)>> = vec![None; self.clients];
        let mut events: BinaryHeap<_> =
            (0..self.clients).map(|at| Reverse((at as u64 * 100_000, at, Event::MayDepart))).collect();
        let end_ns = self.seconds * S_NS;
        let warm_ns = end_ns / 5;
        let mut random = JitterSource::seeded(self.seed);
        let mut report =
            Report { by_client: vec![0; self.clients], measured_ns: end_ns - warm_ns, ..Report::default() };
        while let Some(Reverse((now_ns, at, event))) = events.pop() {
            if now_ns >= end_ns {
                break;
            }
            clock.set(START_NS + now_ns);
            match event {
                Event::MayDepart => {
                    let opens_ns = paces[at].opens_ns();
                    if opens_ns > now_ns {
                        events.push(Reverse((opens_ns, at, Event::MayDepart)));
                        continue;
                    }
                    let departure = paces[at].depart(now_ns);
                    in_flight[at] = Some((departure, AnswerKind::Failed, ServerHint::default()));
                    let way_ns = self.latency_ns / 2 + random.up_to(self.latency_ns / 10);
                    events.push(Reverse((now_ns + way_ns, at, Event::Arrives)));
                }
                Event::Arrives => {
                    let verdict =
                        server.check(&Request { identities: &[("user", &names[at])], ..Request::from_peer(None) });
                    let answer = if verdict.is_allowed() { AnswerKind::Accepted } else { AnswerKind::Refused };
                    let now = UNIX_EPOCH + Duration::from_nanos(START_NS + now_ns);
                    let hint = ServerHint::from_headers(&verdict.header_fields().into_map(), now);
                    if now_ns >= warm_ns {
                        report.arrivals_ns.push(now_ns);
                        match answer {
                            AnswerKind::Accepted => {
                                report.accepted += 1;
                                report.by_client[at] += 1;
                            }
                            _ => report.refused += 1,
                        }
                    }
                    if let Some((_, known, fields)) = &mut in_flight[at] {
                        (*known, *fields) = (answer, hint);
                    }
                    events.push(Reverse((now_ns + self.latency_ns / 2, at, Event::Returns)));
                }
                Event::Returns => {
                    let (departure, answer, hint) = in_flight[at].take().unwrap();
                    paces[at].observe(departure, answer, &hint, now_ns);
                    events.push(Reverse((now_ns, at, Event::MayDepart)));
                }
            }
        }
        report
    }
}

impl Simulation {
    /// Fifty clients, one request at a time, two milliseconds from the server.
    fn of(limit: &'static str, algorithm: AlgorithmKind, own_keys: bool, seconds: u64) -> Simulation {
        Simulation { limit, algorithm, clients: 50, own_keys, latency_ns: 2_000_000, seed: 7, seconds }
    }

    /// Runs and checks that at least `least_used` thousandths of `per_s` are used, and at most one request in a
    /// thousand is refused.
    fn check(self, per_s: u64, least_used: u64) -> Report {
        let report = self.run();
        let used = report.accepted * 1_000 * S_NS / (per_s * report.measured_ns);
        let all = report.accepted + report.refused;
        assert!(used >= least_used, "{} {:?}: {used} thousandths are used", self.limit, self.algorithm);
        assert!(
            report.refused * 1_000 < all,
            "{} {:?}: {} of {all} are refused",
            self.limit,
            self.algorithm,
            report.refused
        );
        report
    }
}

impl Report {
    /// Returns how many times the mean rate the clients reach within any tenth of a second.
    fn peak(&self) -> u64 {
        let mut tenths: HashMap<u64, u64> = HashMap::new();
        self.arrivals_ns.iter().for_each(|at_ns| *tenths.entry(at_ns / (S_NS / 10)).or_default() += 1);
        let most = tenths.values().max().copied().unwrap_or(0);
        most * self.measured_ns / (S_NS / 10) / self.arrivals_ns.len() as u64
    }
}

#[test]
fn clients_that_share_a_bucket_use_all_of_it_without_refusals() {
    Simulation::of("500/s", AlgorithmKind::TokenBucket, false, 25).check(500, 980);
    Simulation::of("50/s", AlgorithmKind::TokenBucket, false, 100).check(50, 980);
    Simulation::of("600/min", AlgorithmKind::TokenBucket, false, 300).check(10, 980);
    let few = Simulation::of("60/min", AlgorithmKind::TokenBucket, false, 1_000);
    Simulation { clients: 10, ..few }.check(1, 950);
}

#[test]
fn clients_that_share_a_bucket_have_similar_shares() {
    let report = Simulation::of("500/s", AlgorithmKind::TokenBucket, false, 25).run();
    let (least, most) = (report.by_client.iter().min().unwrap(), report.by_client.iter().max().unwrap());
    assert!(*most <= 2 * least, "{least} {most}");
}

#[test]
fn clients_with_keys_of_their_own_use_their_limits_without_refusals() {
    Simulation::of("10/s", AlgorithmKind::TokenBucket, true, 25).check(500, 980);
    Simulation::of("100 per 10s", AlgorithmKind::FixedWindow, true, 50).check(500, 980);
}

#[test]
fn clients_that_share_a_window_use_nearly_all_of_it_and_do_not_return_together() {
    let report = Simulation::of("5000 per 10s", AlgorithmKind::FixedWindow, false, 50).check(500, 950);
    assert!(report.peak() <= 2, "{}", report.peak());
    Simulation::of("3000/min", AlgorithmKind::FixedWindow, false, 240).check(50, 950);
}

#[test]
fn clients_under_sliding_windows_are_not_refused() {
    for algorithm in [AlgorithmKind::SlidingWindowLog, AlgorithmKind::SlidingWindowCounter] {
        Simulation::of("5000 per 10s", algorithm, false, 50).check(500, 900);
        Simulation::of("100 per 10s", algorithm, true, 50).check(500, 850);
    }
}

#[test]
fn distant_clients_use_their_limits_too() {
    let near = Simulation::of("500/s", AlgorithmKind::TokenBucket, false, 25);
    Simulation { latency_ns: 200_000_000, clients: 200, ..near }.check(500, 950);
}
