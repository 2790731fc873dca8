//! No traffic gets more out of a limiter than its rules promise.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::time::Duration;

use proptest::prelude::*;
use tollgate::policy::model::{MemorySettings, StoreSettings};
use tollgate::policy::promise::{Bound, Promise, promises};
use tollgate::{AlgorithmKind, CheckedPolicy, Limiter, ManualClock, PolicyBuilder, Request, RuleBuilder, rule};

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000 * MS_NS;
const START_NS: u64 = 1_000 * S_NS;

fn policy(rule: RuleBuilder) -> CheckedPolicy {
    // One key needs no large table, and every case makes a new one.
    let settings = MemorySettings { entries: 64, ..MemorySettings::default() };
    let store = StoreSettings::Memory(settings);
    PolicyBuilder::default().rule(rule).with(|policy| policy.store = store).build().unwrap()
}

/// When requests are answered that the limiter lets pass, and when they depart, in nanoseconds.
fn passed_ns(policy: &CheckedPolicy, pauses_ms: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let clock = ManualClock::at(START_NS);
    let limiter = Limiter::in_memory(policy, clock.clone()).unwrap();
    let mut now_ns = START_NS;
    let (mut answers, mut departures) = (Vec::new(), Vec::new());
    for pause_ms in pauses_ms {
        clock.advance(pause_ms * MS_NS);
        now_ns += pause_ms * MS_NS;
        let verdict = limiter.check(&Request::from_peer(None));
        if verdict.is_allowed() {
            answers.push(now_ns);
            departures.push(now_ns + u64::try_from(verdict.delay().as_nanos()).unwrap());
        }
    }
    departures.sort_unstable();
    (answers, departures)
}

/// The most of these that lie in any half-open span.
fn most_in(span_ns: u64, departures_ns: &[u64]) -> u64 {
    let from = |at: usize| departures_ns[at..].iter().take_while(|other| **other - departures_ns[at] < span_ns).count();
    (0..departures_ns.len()).map(from).max().unwrap_or(0) as u64
}

/// A span, and the most that is promised for it.
fn promised(promise: &Promise) -> [(u64, u64); 2] {
    let limit = &promise.grants[0].limits[0];
    let (Bound::Spans { in_period, in_second } | Bound::Queue { in_period, in_second, .. }) = limit.bound else {
        panic!("a rate has spans")
    };
    [(limit.quota.period_ns(), in_period.total()), (S_NS, in_second.total())]
}

/// The same where no answer is held back.
fn promised_unheld(promise: &Promise) -> [(u64, u64); 2] {
    let limit = &promise.grants[0].limits[0];
    let Bound::Queue { unheld_in_period, unheld_in_second, .. } = limit.bound else { return promised(promise) };
    [(limit.quota.period_ns(), unheld_in_period.total()), (S_NS, unheld_in_second.total())]
}

fn a_rule() -> impl Strategy<Value = RuleBuilder> {
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
    fn no_more_passes_than_is_promised(
        rule in a_rule(),
        pauses_ms in prop::collection::vec(prop_oneof![Just(0_u64), 0..30_u64, 0..1_500_u64], 1..120),
    ) {
        let policy = policy(rule);
        let (answers, departures) = passed_ns(&policy, &pauses_ms);
        let promise = &promises(&policy)[0];
        for (span_ns, most) in promised(promise) {
            let passed = most_in(span_ns, &departures);
            prop_assert!(passed <= most, "{passed} in {span_ns} ns, and {most} are promised");
        }
        // Over RESP and Envoy nobody waits.
        for (span_ns, most) in promised_unheld(promise) {
            let passed = most_in(span_ns, &answers);
            prop_assert!(passed <= most, "{passed} in {span_ns} ns unheld, and {most} are promised");
        }
    }
}

#[test]
fn what_is_promised_is_reached_where_it_is_exact() {
    // All at once, with two warnings; and a full bucket, then what comes back in its period.
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
        let reached = most_in(period_ns, &passed_ns(&policy, &pauses_ms).1);
        // Of a bucket the last token comes back at the very end of a period, which does not belong to it.
        assert!(reached == in_period || reached + 1 == in_period, "{reached} of {in_period}");
    }
}

#[test]
fn unheld_queue_lets_pass_what_is_promised_and_no_more() {
    // One every 200 ms, ten places: ten at once, then one whenever a place is free, for a second.
    let policy = policy(rule("r").limit("5/s").queue(10, Duration::from_secs(9)));
    let pauses_ms: Vec<u64> = [0; 40].into_iter().chain([1; 1_100]).collect();
    let (answers, departures) = passed_ns(&policy, &pauses_ms);
    let [(_, held), _] = promised(&promises(&policy)[0]);
    let [(_, unheld), _] = promised_unheld(&promises(&policy)[0]);
    assert_eq!((held, unheld), (6, 15));
    assert_eq!(most_in(1, &answers), 10);
    // The last place comes free at the very end of the second, which does not belong to it.
    assert_eq!((most_in(S_NS, &departures), most_in(S_NS, &answers)), (5, 14));
}

#[test]
fn as_many_are_under_way_at_once_as_permits_and_warnings_are_promised() {
    let policy = policy(rule("r").concurrency(2).on_limit(2, Duration::from_secs(60), None));
    let clock = ManualClock::at(START_NS);
    let limiter = Limiter::in_memory(&policy, clock.clone()).unwrap();
    let Bound::AtOnce { permits, warned: Some(warned), .. } = promises(&policy)[0].grants[0].limits[0].bound else {
        panic!("it limits an instant")
    };
    let mut held = Vec::new();
    for _ in 0..20 {
        clock.advance(S_NS);
        held.extend(limiter.permit(&Request::from_peer(None)).ok());
    }
    assert_eq!(held.len() as u64, permits + warned.first);
    assert_eq!((permits, warned.first), (2, 2));
}
