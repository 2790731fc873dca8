//! Warned, rejected, blocked: the steps against a plain oracle.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::policy::RuleBuilder;
use tollgate::{Action, AlgorithmKind, Limiter, ManualClock, Request, Verdict, rule};

use crate::support::{Manual, clock, from, small};

const MS_NS: u64 = 1_000_000;
const USERS: [&str; 2] = ["ann", "ben"];

/// What happens beyond the limit.
#[derive(Clone, Copy, Debug)]
struct Steps {
    warn_first: u64,
    span_ms: u64,
    /// The number of violations, and the duration of the block.
    block: Option<(u64, u64)>,
}

/// One user's past, written down in full.
#[derive(Default)]
struct Past {
    violations_ns: Vec<u64>,
    blocked_until_ns: u64,
}

impl Past {
    fn within(&self, span_ns: u64, now_ns: u64) -> u64 {
        self.violations_ns.iter().filter(|time| **time + span_ns > now_ns).count() as u64
    }

    /// Whether it may be warned already: where none blocks, violations may count for a fiftieth less.
    fn may_be_warned(&self, steps: &Steps, now_ns: u64) -> bool {
        let span_ns = steps.span_ms * MS_NS;
        steps.block.is_none() && self.within(span_ns - span_ns / 50, now_ns) < steps.warn_first
    }

    /// Returns the effect of a request that the limit refuses. A peek is not recorded.
    fn violation(&mut self, steps: &Steps, now_ns: u64, is_made: bool) -> Action {
        let so_many = self.within(steps.span_ms * MS_NS, now_ns);
        match steps.block {
            Some((after, duration_ms)) if so_many >= after => {
                if is_made {
                    self.blocked_until_ns = now_ns + duration_ms * MS_NS;
                }
                return Action::Block;
            }
            _ => {}
        }
        if is_made {
            self.violations_ns.push(now_ns);
        }
        if so_many < steps.warn_first { Action::Warn } else { Action::Reject }
    }
}

fn steps() -> impl Strategy<Value = Steps> {
    let block = prop_oneof![
        1 => Just(None),
        3 => (0..5_u64, 1..20_000_u64).prop_map(Some),
    ];
    (0..4_u64, 100..20_000_u64, block).prop_map(|(warn_first, span_ms, block)| {
        // A block after n violations allows at most n warnings; an escalation has at least one step.
        let block = block.map(|(more, duration_ms)| ((warn_first + more).max(1), duration_ms));
        let warn_first = if block.is_none() { warn_first.max(1) } else { warn_first };
        Steps { warn_first, span_ms, block }
    })
}

fn algorithms() -> impl Strategy<Value = AlgorithmKind> {
    prop_oneof![
        Just(AlgorithmKind::TokenBucket),
        Just(AlgorithmKind::FixedWindow),
        Just(AlgorithmKind::SlidingWindowLog),
        Just(AlgorithmKind::SlidingWindowCounter),
    ]
}

fn graduated(rule: RuleBuilder, steps: &Steps) -> RuleBuilder {
    let block = steps.block.map(|(after, duration_ms)| (after, Duration::from_millis(duration_ms)));
    rule.on_limit(steps.warn_first, Duration::from_millis(steps.span_ms), block)
}

fn built(rule: RuleBuilder, clock: &ManualClock) -> Manual {
    // The second rule counts the requests that pass; it never refuses.
    let passed = rule_that_counts();
    Limiter::builder().rule(rule).rule(passed).with(small).build_with_clock(clock.clone()).unwrap()
}

fn rule_that_counts() -> RuleBuilder {
    rule("passed").per("user").limit("1000/year").algorithm(AlgorithmKind::SlidingWindowLog)
}

fn used(limiter: &Manual, user: &str) -> Vec<(u64, u64)> {
    let identities = [("user", user)];
    let verdict = limiter.peek(&Request { cost: 0, ..from(&identities) });
    verdict
        .states()
        .iter()
        .map(|state| (state.decision.limit - state.decision.remaining, state.decision.reset_after))
        .collect()
}

fn check(verdict: &Verdict, expected: Action, past: &Past, now_ns: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(verdict.action(), expected);
    let warned: Vec<&str> = verdict.warned_by().collect();
    prop_assert_eq!(warned, if expected == Action::Warn { vec!["limited"] } else { vec![] });
    if expected == Action::Block && past.blocked_until_ns > now_ns {
        // At least until the block ends; longer if the limit refuses for longer.
        let left = Duration::from_nanos(past.blocked_until_ns - now_ns);
        let limit = verdict.states()[0].decision.retry_after().map_or(Duration::ZERO, Duration::from_nanos);
        prop_assert_eq!(verdict.retry_after(), Some(left.max(limit)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn escalation_matches_the_oracle(
        (steps, algorithm) in (steps(), algorithms()),
        (amount, period_s) in (1..4_u64, 1..20_u64),
        requests in vec((0..2_500_u64, 0..USERS.len()), 1..150),
    ) {
        let clock = clock();
        let limited = || rule("limited").per("user").limit(&format!("{amount} per {period_s}s")).algorithm(algorithm);
        let limiter = built(graduated(limited(), &steps), &clock);
        // The same limit without an escalation decides which requests exceed it.
        let plain = built(limited(), &clock);
        let mut pasts: HashMap<usize, Past> = HashMap::new();
        let mut passes: HashMap<usize, u64> = HashMap::new();
        for (advance_ms, user) in requests {
            clock.advance(Duration::from_millis(advance_ms));
            let now_ns = tollgate::store::Store::now_ns(limiter.store());
            let identities = [("user", USERS[user])];
            let request = from(&identities);
            let past = pasts.entry(user).or_default();
            let before = used(&limiter, USERS[user]);
            let is_blocked = now_ns < past.blocked_until_ns;
            let is_within = plain.peek(&request).is_allowed();
            let may_be_warned = past.may_be_warned(&steps, now_ns);
            let mut expect = |is_made: bool| match (is_blocked, is_within) {
                (true, _) => Action::Block,
                (false, true) => Action::Allow,
                (false, false) => past.violation(&steps, now_ns, is_made),
            };
            let (mut foreseen, mut expected) = (expect(false), expect(true));
            let asked = limiter.peek(&request);
            let verdict = limiter.check(&request);
            if expected == Action::Reject && verdict.action() == Action::Warn && may_be_warned {
                (foreseen, expected) = (Action::Warn, Action::Warn);
            }
            prop_assert_eq!(asked.action(), foreseen);
            check(&verdict, expected, past, now_ns)?;
            prop_assert_eq!(asked.retry_after(), verdict.retry_after());
            if expected == Action::Allow {
                prop_assert!(plain.check(&request).is_allowed());
            }
            let passed = passes.entry(user).or_default();
            *passed += u64::from(verdict.is_allowed());
            let after = used(&limiter, USERS[user]);
            // A request with a warning is charged by the other rule and not by its own.
            prop_assert_eq!(after[1].0, *passed);
            if expected != Action::Allow {
                prop_assert_eq!(after[0], before[0]);
            }
        }
    }
}

/// Sends the requests of one user, each after a pause in nanoseconds.
fn actions<const COUNT: usize>(steps: Steps, after_ns: [u64; COUNT]) -> [Action; COUNT] {
    let clock = clock();
    let limiter = built(graduated(rule("limited").per("user").limit("1/day"), &steps), &clock);
    after_ns.map(|ns| {
        clock.advance(Duration::from_nanos(ns));
        limiter.check(&from(&[("user", "ann")])).action()
    })
}

#[test]
fn block_duration_is_exact_to_the_nanosecond() {
    use Action::{Allow, Block, Reject, Warn};
    let steps = Steps { warn_first: 1, span_ms: 1_000, block: Some((2, 3_000)) };
    let block_ns = 3_000 * MS_NS;
    assert_eq!(
        actions(steps, [0, 0, 0, 0, block_ns - 1, 1]),
        // When it ends, its causes are out of the span.
        [Allow, Warn, Reject, Block, Block, Warn]
    );
}

#[test]
fn violation_span_is_exact_to_the_nanosecond() {
    use Action::{Allow, Block, Reject, Warn};
    let steps = Steps { warn_first: 1, span_ms: 10_000, block: Some((2, 3_000)) };
    let span_ns = 10_000 * MS_NS;
    assert_eq!(actions(steps, [0, 0, 0, span_ns - 1]), [Allow, Warn, Reject, Block]);
    assert_eq!(actions(steps, [0, 0, 0, span_ns]), [Allow, Warn, Reject, Warn]);
}

/// A peek foresees how long the block would last that it does not begin.
#[test]
fn peek_reports_the_duration_of_a_block() {
    let steps = Steps { warn_first: 0, span_ms: 10_000, block: Some((1, 3_000)) };
    let limiter = built(graduated(rule("limited").per("user").limit("1/s burst 1"), &steps), &clock());
    let identities = [("user", "ann")];
    let request = from(&identities);
    assert_eq!([limiter.check(&request).action(), limiter.check(&request).action()], [Action::Allow, Action::Reject]);
    let foreseen = limiter.peek(&request);
    assert_eq!((foreseen.action(), foreseen.retry_after()), (Action::Block, Some(Duration::from_secs(3))));
}

/// Returns how many requests get a warning, at a given interval, if the limit refuses nearly all.
fn warned(limiter: &Manual, clock: &ManualClock, requests: usize, apart_ns: u64) -> usize {
    let warned = (0..requests).filter(|_| {
        clock.advance(Duration::from_nanos(apart_ns));
        limiter.check(&from(&[("user", "ann")])).action() == Action::Warn
    });
    warned.count()
}

/// Refused violations count like those that were warned.
#[test]
fn steady_violations_get_only_the_first_warnings() {
    for apart_ms in [20, 500, 20_000] {
        let clock = clock();
        let steps = Steps { warn_first: 2, span_ms: 60_000, block: None };
        let limiter = built(graduated(rule("limited").per("user").limit("1/h"), &steps), &clock);
        // For ten spans and more.
        let requests = usize::try_from(660_000 / apart_ms).unwrap();
        assert_eq!(warned(&limiter, &clock, requests, apart_ms * MS_NS), 2, "every {apart_ms} ms");
        // A span without a violation, and it is warned anew.
        clock.advance(Duration::from_secs(60));
        assert_eq!(warned(&limiter, &clock, 50, 0), 2, "after a pause");
    }
}

/// However many come at once, a key that comes again within the span is not warned again.
#[test]
fn bursts_of_violations_get_only_the_first_warnings() {
    for first in [1, 3, 100] {
        let clock = clock();
        let steps = Steps { warn_first: first, span_ms: 60_000, block: None };
        let limiter = built(graduated(rule("limited").per("user").limit("1/day"), &steps), &clock);
        // Twenty bursts, half a span apart.
        let all: usize =
            (0..20).map(|_| warned(&limiter, &clock, 500, 0) + warned(&limiter, &clock, 1, 30_000 * MS_NS)).sum();
        assert_eq!(all as u64, first);
        clock.advance(Duration::from_secs(60));
        assert_eq!(warned(&limiter, &clock, 500, 0) as u64, first, "after a pause");
    }
}
