//! A limiter admits no more traffic than its rules promise.
#![allow(clippy::unwrap_used, reason = "a helper that fails must fail its test")]

use std::time::Duration;

use proptest::prelude::*;
use tollgate::policy::model::{MemorySettings, StoreSettings};
use tollgate::policy::promise::{AdmissionBound, Promise, promises};
use tollgate::policy::{CheckedPolicy, PolicyBuilder, RuleBuilder};
use tollgate::{AlgorithmKind, Limiter, ManualClock, Request, rule};

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000 * MS_NS;
const START_NS: u64 = 1_000 * S_NS;

fn policy(rule: RuleBuilder) -> CheckedPolicy {
    // One key needs only a small table, and every case creates a new one.
    let settings = MemorySettings { entries: 64, ..MemorySettings::default() };
    let store = StoreSettings::Memory(settings);
    PolicyBuilder::default().rule(rule).with(|policy| policy.store = store).build().unwrap()
}

/// Returns when the allowed requests are decided, and when they depart after their delay, in nanoseconds.
fn admitted_ns(policy: &CheckedPolicy, pauses_ms: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let clock = ManualClock::at(START_NS);
    let limiter = Limiter::with_clock(policy, clock.clone()).unwrap();
    let mut now_ns = START_NS;
    let (mut decisions, mut departures) = (Vec::new(), Vec::new());
    for pause_ms in pauses_ms {
        clock.advance(Duration::from_millis(*pause_ms));
        now_ns += pause_ms * MS_NS;
        let verdict = limiter.check(&Request::from_peer(None));
        if verdict.is_allowed() {
            decisions.push(now_ns);
            departures.push(now_ns + u64::try_from(verdict.delay().as_nanos()).unwrap());
        }
    }
    departures.sort_unstable();
    (decisions, departures)
}

/// Returns the largest number of departures in any half-open span.
fn most_in(span_ns: u64, departures_ns: &[u64]) -> u64 {
    let from = |at: usize| departures_ns[at..].iter().take_while(|other| **other - departures_ns[at] < span_ns).count();
    (0..departures_ns.len()).map(from).max().unwrap_or(0) as u64
}

/// Returns spans, and the maximum that is promised for each.
fn promised(promise: &Promise) -> [(u64, u64); 2] {
    let limit = &promise.grants[0].limits[0];
    let (AdmissionBound::Spans { in_period, in_second } | AdmissionBound::Queue { in_period, in_second, .. }) =
        limit.bound
    else {
        panic!("a rate limit has spans")
    };
    [(limit.quota.period_ns(), in_period.total()), (S_NS, in_second.total())]
}

/// The same for front ends that do not delay requests.
fn promised_unheld(promise: &Promise) -> [(u64, u64); 2] {
    let limit = &promise.grants[0].limits[0];
    let AdmissionBound::Queue { unheld_in_period, unheld_in_second, .. } = limit.bound else {
        return promised(promise);
    };
    [(limit.quota.period_ns(), unheld_in_period.total()), (S_NS, unheld_in_second.total())]
}

fn any_rule() -> impl Strategy<Value = RuleBuilder> {
    let windows = prop_oneof![
        Just(AlgorithmKind::FixedWindow),
        Just(AlgorithmKind::SlidingWindowCounter),
        Just(AlgorithmKind::SlidingWindowLog),
    ];
    let bucket = (1..5_u64, 1..4_u64, 1..5_u64)
        .prop_map(|(count, period_s, burst)| rule("r").limit(&format!("{count}/{period_s}s burst {burst}")));
    let window = (1..5_u64, 1..4_u64, windows)
        .prop_map(|(count, period_s, algorithm)| rule("r").limit(&format!("{count}/{period_s}s")).algorithm(algorithm));
    let queue = (1..5_u64, 1..4_u64, 1..4_u64).prop_map(|(count, period_s, size)| {
        rule("r").limit(&format!("{count}/{period_s}s")).queue(size, Duration::from_secs(3))
    });
    let warned = (0..3_u64, 1..4_u64, prop::option::of((1..6_u64, 1..4_u64)));
    (prop_oneof![bucket, window, queue], warned).prop_map(|(rule, (first, within_s, block))| {
        let block = block.map(|(more, for_s)| (first + more, Duration::from_secs(for_s)));
        if first == 0 && block.is_none() {
            return rule;
        }
        rule.on_limit(first, Duration::from_secs(within_s), block)
    })
}

proptest! {
    #[test]
    fn admissions_never_exceed_the_promise(
        rule in any_rule(),
        pauses_ms in prop::collection::vec(prop_oneof![Just(0_u64), 0..30_u64, 0..1_500_u64], 1..120),
    ) {
        let policy = policy(rule);
        let (decisions, departures) = admitted_ns(&policy, &pauses_ms);
        let promise = &promises(&policy)[0];
        for (span_ns, most) in promised(promise) {
            let admitted = most_in(span_ns, &departures);
            prop_assert!(admitted <= most, "{admitted} in {span_ns} ns exceed the promise of {most}");
        }
        // RESP and gRPC do not delay requests.
        for (span_ns, most) in promised_unheld(promise) {
            let admitted = most_in(span_ns, &decisions);
            prop_assert!(admitted <= most, "{admitted} in {span_ns} ns without delays exceed the promise of {most}");
        }
    }
}

#[test]
fn exact_promises_are_reached() {
    // All at once, with two warnings; and a full bucket, then its refill within the period.
    for (rule, pauses_ms) in [
        (
            rule("r").limit("3/2s").algorithm(AlgorithmKind::SlidingWindowLog).on_limit(
                2,
                Duration::from_secs(2),
                None,
            ),
            vec![0; 9],
        ),
        (rule("r").limit("2/2s burst 3"), vec![0, 0, 0, 1_000, 999]),
    ] {
        let policy = policy(rule);
        let [(period_ns, in_period), _] = promised(&promises(&policy)[0]);
        let reached = most_in(period_ns, &admitted_ns(&policy, &pauses_ms).1);
        // The last token of a bucket is refilled at the very end of the period, which is exclusive.
        assert!(reached == in_period || reached + 1 == in_period, "{reached} of {in_period}");
    }
}

#[test]
fn queue_without_delays_admits_no_more_than_promised() {
    // One every 200 ms, 10 slots: 10 at once, then one whenever a slot is free, for a second.
    let policy = policy(rule("r").limit("5/s").queue(10, Duration::from_secs(9)));
    let pauses_ms: Vec<u64> = [0; 40].into_iter().chain([1; 1_100]).collect();
    let (decisions, departures) = admitted_ns(&policy, &pauses_ms);
    let [(_, held), _] = promised(&promises(&policy)[0]);
    let [(_, unheld), _] = promised_unheld(&promises(&policy)[0]);
    assert_eq!((held, unheld), (6, 15));
    assert_eq!(most_in(1, &decisions), 10);
    // The last slot is free at the very end of the second, which is exclusive.
    assert_eq!((most_in(S_NS, &departures), most_in(S_NS, &decisions)), (5, 14));
}

#[test]
fn concurrent_admissions_equal_permits_plus_warnings() {
    let policy = policy(rule("r").concurrency(2).on_limit(2, Duration::from_secs(60), None));
    let clock = ManualClock::at(START_NS);
    let limiter = Limiter::with_clock(&policy, clock.clone()).unwrap();
    let AdmissionBound::AtOnce { permits, warned: Some(warned), .. } = promises(&policy)[0].grants[0].limits[0].bound
    else {
        panic!("a concurrency rule has permits")
    };
    let mut held = Vec::new();
    for _ in 0..20 {
        clock.advance(Duration::from_secs(1));
        held.extend(limiter.permit(&Request::from_peer(None)).ok());
    }
    assert_eq!(held.len() as u64, permits + warned.first);
    assert_eq!((permits, warned.first), (2, 2));
}
