//! How limits follow from a trace.
//!
//! For each key and class of endpoints:
//! 1. Clients that stand out are set apart: see `outliers`. The others are well-behaved.
//! 2. The *needed burst* at a rate is what the stated share of the well-behaved clients does not exceed, each with the
//!    smallest bucket that would have let all its requests pass. It falls as the rate grows.
//! 3. The *needed rate* is the smallest one whose needed burst refills within one period: [`period_ns`].
//! 4. The limit is the needed rate and burst with the margin, rounded up to two digits.
//! 5. The requests that the limit refuses are counted with the algorithm of the limiter.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use tollgate::quota::{RateError, Tick};
use tollgate::{Quota, Rate};
use tollgate_core::{Algorithm, Bucket, BucketState};

use super::burst_ladder::{BurstLadder, RUNGS, RungRates, candidate_counts, rung_rates, with_margin};
use super::client_class::{ClassMember, KeyClients, measure, measure_bursts, replay_members};
use super::endpoint_class::{CLASS_COUNT, EndpointClass, EndpointClasses};
use super::outliers::outlier_threshold;
use super::report::{Calibration, LimitProposal, Outlier, OutlierKind, TouchedTraffic, TrafficEvidence};
use super::trace::RequestTrace;
use super::{CalibrationOptions, Calibrator};
use crate::tally::client_index::ClientIndex;
use crate::tally::quantiles::{Quantiles, quantile};
use crate::tally::{MINUTE_NS, to_u32};

/// Figures below these never stand out: a person reaches them.
const MINUTE_FLOOR: u64 = 10;
const HOUR_FLOOR: u64 = 60;
const DENIED_FLOOR: u64 = 10;

/// A value for each key and class.
type ByGroup<T> = Vec<[T; CLASS_COUNT]>;

/// The period of a class's limit. A burst refills within it.
const fn period_ns(class: EndpointClass) -> u64 {
    match class {
        EndpointClass::Reads | EndpointClass::Writes => MINUTE_NS,
        // Attempts at secrets are few, and hours of guessing must not be worth it.
        EndpointClass::Auth => 10 * MINUTE_NS,
    }
}

/// The needed rate and burst of a group.
#[derive(Clone, Debug)]
struct Need {
    count: u64,
    burst: u64,
    /// The bursts of all well-behaved clients at that rate.
    bursts: Quantiles,
}

pub(super) fn propose(calibrator: Calibrator) -> io::Result<Calibration> {
    let Calibrator { options, clients, endpoints, endpoint_tallies, trace, requests, first_ns, last_ns, .. } =
        calibrator;
    let classes = EndpointClasses::of(&endpoints, &endpoint_tallies);
    let mut trace = trace.finish(clients.len())?;
    let counts: Vec<usize> = clients.iter().map(ClientIndex::len).collect();
    let keys = measure(&mut trace, &classes, &counts)?;
    let outliers: Vec<Vec<bool>> = keys.iter().zip(&counts).map(|(key, count)| outliers_of(key, *count)).collect();
    let needs = needs(&mut trace, &classes, &keys, &outliers, options.share_ppm)?;
    let rates: ByGroup<Option<Rate>> =
        needs.iter().map(|key| std::array::from_fn(|class| limit(key[class].as_ref(), class, &options))).collect();
    let refused = refusals(&mut trace, &classes, &keys, &rates)?;
    let groups = Groups { options: &options, clients: &clients, keys: &keys, outliers: &outliers, refused: &refused };
    Ok(Calibration {
        requests,
        clients: options.keys.iter().zip(&counts).map(|(key, count)| (key.to_string(), *count as u64)).collect(),
        first_ns: first_ns.min(last_ns),
        last_ns,
        share_ppm: options.share_ppm,
        margin_percent: options.margin_percent,
        declared_keys: options.keys.iter().filter(|key| key.is_declared()).map(ToString::to_string).collect(),
        auth_endpoints: classes.auth.clone(),
        proposals: groups.proposals(&needs, &rates),
        outliers: groups.outliers(),
    })
}

/// Returns for each client whether it stands out in any class.
fn outliers_of(key: &KeyClients, clients: usize) -> Vec<bool> {
    /// A figure by which a client can stand out, and its floor.
    type Figure = (fn(&ClassMember) -> u64, u64);
    const FIGURES: [Figure; 3] = [
        (|member| u64::from(member.peaks().in_minute), MINUTE_FLOOR),
        (|member| u64::from(member.peaks().in_hour), HOUR_FLOOR),
        (|member| if member.class == EndpointClass::Auth { member.denied } else { 0 }, DENIED_FLOOR),
    ];
    let mut stands_out = vec![false; clients];
    for class in EndpointClass::ALL {
        let members = || key.members.iter().filter(|member| member.class == class);
        for (figure, floor) in FIGURES {
            let Some(threshold) = outlier_threshold(members().map(figure).collect(), floor) else { continue };
            for member in members().filter(|member| figure(member) >= threshold) {
                stands_out[member.client as usize] = true;
            }
        }
    }
    stands_out
}

/// Finds the needed rate of every group in two replays: between eight candidates far apart, then among the eight from
/// the one below to the first that suffices.
fn needs(
    trace: &mut RequestTrace,
    classes: &EndpointClasses,
    keys: &[KeyClients],
    outliers: &[Vec<bool>],
    share_ppm: u32,
) -> io::Result<ByGroup<Option<Need>>> {
    let candidates = candidate_counts();
    let rates = |class: usize, positions| rung_rates(&candidates, positions, period_ns(EndpointClass::ALL[class]));
    let coarse: [usize; RUNGS] = std::array::from_fn(|rung| rung * RUNGS + RUNGS - 1);
    let coarse_rates: ByGroup<Option<RungRates>> =
        keys.iter().map(|_| std::array::from_fn(|class| Some(rates(class, coarse)))).collect();
    let ladders = measure_bursts(trace, classes, keys, &coarse_rates)?;
    let fine_rates: ByGroup<Option<RungRates>> = (0..keys.len())
        .map(|key| {
            std::array::from_fn(|class| {
                let group = Group { key: &keys[key], class, stands_out: &outliers[key], ladders: &ladders[key] };
                let rung = group.first_sufficient(coarse_rates[key][class].as_ref()?, share_ppm)?;
                Some(rates(class, std::array::from_fn(|at| rung * RUNGS + at)))
            })
        })
        .collect();
    // They are most of the memory.
    drop(ladders);
    let ladders = measure_bursts(trace, classes, keys, &fine_rates)?;
    let need = |key: usize, class: usize| {
        let group = Group { key: &keys[key], class, stands_out: &outliers[key], ladders: &ladders[key] };
        let rates = fine_rates[key][class].as_ref()?;
        let rung = group.first_sufficient(rates, share_ppm)?;
        let mut bursts = group.bursts(rung, rates);
        let quantiles = Quantiles::of(&mut bursts);
        Some(Need { count: rates.counts[rung], burst: quantile(&bursts, share_ppm), bursts: quantiles })
    };
    Ok((0..keys.len()).map(|key| std::array::from_fn(|class| need(key, class))).collect())
}

/// The well-behaved clients of a key in a class, with their bursts.
struct Group<'a> {
    key: &'a KeyClients,
    class: usize,
    stands_out: &'a [bool],
    ladders: &'a [BurstLadder],
}

impl Group<'_> {
    /// Returns the bursts that the clients needed at a rate.
    fn bursts(&self, rung: usize, rates: &RungRates) -> Vec<u64> {
        let members = self.key.members.iter().zip(self.ladders);
        let is_in =
            |member: &ClassMember| member.class as usize == self.class && !self.stands_out[member.client as usize];
        members.filter(|(member, _)| is_in(member)).map(|(_, ladder)| ladder.burst(rung, rates)).collect()
    }

    /// Returns the first rate whose needed burst refills within the period, or else the largest rate. `None` if the
    /// group is empty.
    fn first_sufficient(&self, rates: &RungRates, share_ppm: u32) -> Option<usize> {
        let needed = |rung: usize| {
            let mut bursts = self.bursts(rung, rates);
            bursts.sort_unstable();
            (!bursts.is_empty()).then(|| quantile(&bursts, share_ppm))
        };
        needed(0)?;
        Some(
            (0..RUNGS)
                .find(|rung| needed(*rung).is_some_and(|burst| burst <= rates.counts[*rung]))
                .unwrap_or(RUNGS - 1),
        )
    }
}

/// Returns the limit of a group: its need with the margin.
fn limit(need: Option<&Need>, class: usize, options: &CalibrationOptions) -> Option<Rate> {
    let need = need?;
    let period = Duration::from_nanos(period_ns(EndpointClass::ALL[class]));
    let count = with_margin(need.count, options.margin_percent);
    // A burst above the count would not refill within the period; only the largest candidate needs one.
    let burst = with_margin(need.burst, options.margin_percent);
    let rate = |count| -> Result<Rate, RateError> { Rate::new(count, period)?.with_burst(burst) };
    rate(count).ok()
}

/// Counts the requests of each member that its limit refuses, by the algorithm of the limiter.
fn refusals(
    trace: &mut RequestTrace,
    classes: &EndpointClasses,
    keys: &[KeyClients],
    rates: &ByGroup<Option<Rate>>,
) -> io::Result<Vec<Vec<u64>>> {
    let bucket = |rate: Option<Rate>| {
        let quota = Quota::token_bucket(rate?).ok()?;
        Bucket::new(&quota, Tick::Nanosecond)
    };
    let buckets: ByGroup<Option<Bucket>> = rates.iter().map(|key| key.map(bucket)).collect();
    let mut counts: Vec<Vec<(u64, BucketState)>> =
        keys.iter().map(|key| key.members.iter().map(|_| (0, BucketState::default())).collect()).collect();
    let touch = |counts: &Vec<Vec<(u64, BucketState)>>, key: usize, member: usize| counts[key][member].0;
    replay_members(trace, classes, keys, &mut counts, touch, |counts, key, member, request| {
        let Some(bucket) = &buckets[key][member.class] else { return };
        let (refused, state) = &mut counts[key][member.position];
        if !bucket.check(state, request.time_ns, 1).is_allowed() {
            *refused += 1;
        }
    })?;
    Ok(counts.into_iter().map(|key| key.into_iter().map(|(refused, _)| refused).collect()).collect())
}

/// All measurements, by key.
struct Groups<'a> {
    options: &'a CalibrationOptions,
    clients: &'a [ClientIndex],
    keys: &'a [KeyClients],
    outliers: &'a [Vec<bool>],
    refused: &'a [Vec<u64>],
}

impl Groups<'_> {
    fn proposals(&self, needs: &ByGroup<Option<Need>>, rates: &ByGroup<Option<Rate>>) -> Vec<LimitProposal> {
        let proposal = |key: usize, class: EndpointClass| {
            let (need, rate) = (needs[key][class as usize].as_ref()?, rates[key][class as usize]?);
            Some(LimitProposal {
                key: self.options.keys[key].to_string(),
                class,
                rate,
                evidence: self.evidence(key, class, need),
                touched: self.touched(key, class),
            })
        };
        (0..self.keys.len()).flat_map(|key| EndpointClass::ALL.map(|class| proposal(key, class))).flatten().collect()
    }

    /// The members of a class, each with whether it stands out.
    fn members(&self, key: usize, class: EndpointClass) -> impl Iterator<Item = (usize, &ClassMember, bool)> {
        let members = self.keys[key].members.iter().enumerate().filter(move |(_, member)| member.class == class);
        members.map(move |(at, member)| (at, member, self.outliers[key][member.client as usize]))
    }

    fn evidence(&self, key: usize, class: EndpointClass, need: &Need) -> TrafficEvidence {
        let behaved = || self.members(key, class).filter(|(_, _, stands_out)| !stands_out).map(|(_, member, _)| member);
        let set_apart = || self.members(key, class).filter(|(_, _, stands_out)| *stands_out);
        let quantiles = |figure: fn(&ClassMember) -> Option<u64>| {
            Quantiles::of(&mut behaved().filter_map(figure).collect::<Vec<u64>>())
        };
        TrafficEvidence {
            clients: behaved().count() as u64,
            requests: behaved().map(|member| member.requests).sum(),
            outliers: set_apart().count() as u64,
            outlier_requests: set_apart().map(|(_, member, _)| member.requests).sum(),
            per_second: quantiles(|member| Some(u64::from(member.peaks().in_second))),
            per_minute: quantiles(|member| Some(u64::from(member.peaks().in_minute))),
            per_hour: quantiles(|member| Some(u64::from(member.peaks().in_hour))),
            sustained_per_hour: quantiles(ClassMember::sustained_per_hour),
            needed_count: need.count,
            period_ns: period_ns(class),
            burst: need.bursts,
            needed_burst: need.burst,
        }
    }

    fn touched(&self, key: usize, class: EndpointClass) -> TouchedTraffic {
        let mut touched = TouchedTraffic::default();
        for (at, _, stands_out) in self.members(key, class) {
            let refused = self.refused[key][at];
            let (clients, requests) = if stands_out {
                (&mut touched.outliers, &mut touched.outlier_requests)
            } else {
                (&mut touched.clients, &mut touched.requests)
            };
            *clients += u64::from(refused > 0);
            *requests += refused;
        }
        touched
    }

    /// The clients that stand out, each in the class in which it has the most requests.
    fn outliers(&self) -> Vec<Outlier> {
        let mut outliers = Vec::new();
        for (key, stands_out) in self.outliers.iter().enumerate() {
            let clients = (0..to_u32(stands_out.len())).filter(|client| stands_out[*client as usize]);
            outliers.extend(clients.filter_map(|client| self.outlier(key, client)));
        }
        outliers
            .sort_by(|one, other| (Reverse(one.requests), &one.client).cmp(&(Reverse(other.requests), &other.client)));
        outliers
    }

    fn outlier(&self, key: usize, client: u32) -> Option<Outlier> {
        let members = &self.keys[key].members;
        let at = self.keys[key].positions_of(client).max_by_key(|at| members[*at].requests)?;
        let member = &members[at];
        Some(Outlier {
            key: self.options.keys[key].to_string(),
            client: self.clients[key].name(client).clone(),
            kind: match member.class {
                EndpointClass::Auth if member.denied * 2 >= member.requests => OutlierKind::CredentialStuffer,
                EndpointClass::Reads => OutlierKind::Scraper,
                EndpointClass::Auth | EndpointClass::Writes => OutlierKind::HeavyClient,
            },
            class: member.class,
            requests: member.requests,
            denied: member.denied,
            peaks: member.peaks(),
            refused: self.refused[key][at],
        })
    }
}
