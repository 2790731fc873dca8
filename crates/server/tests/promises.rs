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

/// When requests depart that the limiter lets pass, in nanoseconds.
fn departures_ns(policy: &CheckedPolicy, pauses_ms: &[u64]) -> Vec<u64> {
    let clock = ManualClock::at(START_NS);
    let limiter = Limiter::in_memory(policy, clock.clone()).unwrap();
    let mut now_ns = START_NS;
    let mut departures = Vec::new();
    for pause_ms in pauses_ms {
        clock.advance(pause_ms * MS_NS);
        now_ns += pause_ms * MS_NS;
        let verdict = limiter.check(&Request::from_peer(None));
        if verdict.is_allowed() {
            departures.push(now_ns + u64::try_from(verdict.delay().as_nanos()).unwrap());
        }
    }
    departures.sort_unstable();
    departures
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
        let departures = departures_ns(&policy, &pauses_ms);
        for (span_ns, most) in promised(&promises(&policy)[0]) {
            let passed = most_in(span_ns, &departures);
            prop_assert!(passed <= most, "{passed} in {span_ns} ns, and {most} are promised");
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
        let reached = most_in(period_ns, &departures_ns(&policy, &pauses_ms));
        // Of a bucket the last token comes back at the very end of a period, which does not belong to it.
        assert!(reached == in_period || reached + 1 == in_period, "{reached} of {in_period}");
    }
}
