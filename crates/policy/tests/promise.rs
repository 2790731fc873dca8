//! The promises of rules, compared with figures computed manually and with the algorithms.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, FixedWindow, NotLeased, Quota, SlidingCounter, SlidingLog, Tick,
};
use tollgate_policy::model::{
    Allowance, Consistency, Cost, CostSource, FailureMode, Grant, MemorySettings, Override, RedisSettings, Rule,
    StoreSettings, TextPattern,
};
use tollgate_policy::promise::{AdmissionBound, GrantedTo, LeaseBound, LimitPromise, MostAdmitted, Promise, Unit};
use tollgate_policy::{PolicyBuilder, RuleBuilder, rule};

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000 * MS_NS;
const MIN_NS: u64 = 60 * S_NS;

fn built(builder: RuleBuilder) -> Rule {
    PolicyBuilder::default().rule(builder).build().unwrap().rules[0].clone()
}

fn promise(builder: RuleBuilder) -> Promise {
    Promise::of(&built(builder), &StoreSettings::Memory(MemorySettings::default()), None)
}

fn redis(on_failure: FailureMode, fallback_share: (u32, u32)) -> StoreSettings {
    StoreSettings::Redis(RedisSettings {
        on_failure,
        fallback_share,
        ..RedisSettings::at(vec!["127.0.0.1:6379".to_owned()])
    })
}

fn only_limit(promise: &Promise) -> &LimitPromise {
    &promise.grants[0].limits[0]
}

fn charged(charged: u64) -> MostAdmitted {
    MostAdmitted { charged, warned: 0 }
}

#[test]
fn figures_equal_those_computed_manually() {
    use AlgorithmKind::{FixedWindow, LeakyBucket, SlidingWindowCounter, SlidingWindowLog, TokenBucket};
    // Limit, algorithm, the most in its period, the most in a second, the longest refusal in ms.
    for (rate, algorithm, in_period, in_second, longest_ms) in [
        // A full bucket of 60, and one token a second.
        ("60/min", TokenBucket, 120, 61, 1_000),
        ("60/min burst 100", TokenBucket, 160, 101, 1_000),
        ("10/s", TokenBucket, 30, 30, 100),
        ("600/min burst 1200", LeakyBucket, 1_800, 1_210, 100),
        // Two tokens a minute: none is refilled within a second.
        ("2/min burst 1", TokenBucket, 3, 1, 30_000),
        // The end of one window and the start of the next.
        ("100/min", FixedWindow, 200, 200, 60_000),
        ("5/min", SlidingWindowLog, 5, 5, 60_000),
        // A period is a tenth of a second, so a second has ten of them.
        ("3 per 100ms", SlidingWindowLog, 3, 30, 100),
        // A second that begins just before a boundary: 200, and a 60th of them expires after it.
        // All used at the start of a window: the next window begins, and a 200th of it must pass.
        ("200/min", SlidingWindowCounter, 399, 203, 60_300),
    ] {
        let promise = promise(rule("r").per("client_ip").limit(rate).algorithm(algorithm));
        let limit = only_limit(&promise);
        let expected = AdmissionBound::Spans { in_period: charged(in_period), in_second: charged(in_second) };
        assert_eq!(limit.bound, expected, "{rate} {algorithm}");
        assert_eq!(limit.longest_refusal_ns, Some(longest_ms * MS_NS), "{rate} {algorithm}");
        assert_eq!(promise.longest_refusal_ns(), Some(longest_ms * MS_NS));
    }
}

#[test]
fn warnings_are_added_for_each_overlapping_span() {
    // Limit, the span of violations in seconds, warned in the period, warned in a second.
    for (rate, span_s, in_period, in_second) in [
        ("5/min", 600, 2, 2),
        ("5/min", 60, 2, 2),
        // Three spans of 20 seconds cover a minute, and nothing shorter than a span has more.
        ("5/min", 20, 6, 2),
        // A minute overlaps four spans of 19 seconds.
        ("5/min", 19, 8, 2),
        ("5/h", 600, 12, 2),
    ] {
        let builder = rule("login").per("client_ip").limit(rate).algorithm(AlgorithmKind::SlidingWindowLog);
        let promise = promise(builder.on_limit(2, Duration::from_secs(span_s), None));
        let expected = AdmissionBound::Spans {
            in_period: MostAdmitted { charged: 5, warned: in_period },
            in_second: MostAdmitted { charged: 5, warned: in_second },
        };
        assert_eq!(only_limit(&promise).bound, expected, "{rate} {span_s}s");
    }
}

#[test]
fn block_is_the_longest_refusal() {
    let block = Some((20, Duration::from_secs(900)));
    let login = rule("login").per("client_ip").limit("5/min").on_limit(2, Duration::from_secs(600), block);
    let promise = promise(login);
    assert_eq!(promise.longest_refusal_ns(), Some(900 * S_NS));
    assert_eq!(promise.blocked.unwrap().after, 20);
}

#[test]
fn queue_promises_departures_size_and_longest_wait() {
    // One every 200 ms: of ten requests in the queue the last waits for nine others, unless the maximum wait is
    // shorter.
    for (size, max_wait_ms, places, longest_wait_ms, unheld) in
        [(10, 2_000, 10, 1_800, 15), (10, 5_000, 10, 1_800, 15), (10, 500, 3, 500, 8), (1, 100, 1, 0, 6)]
    {
        let promise = promise(rule("pay").limit("5/s").queue(size, Duration::from_millis(max_wait_ms)));
        let expected = AdmissionBound::Queue {
            in_period: charged(6),
            in_second: charged(6),
            unheld_in_period: charged(unheld),
            unheld_in_second: charged(unheld),
            places,
            longest_wait_ns: longest_wait_ms * MS_NS,
        };
        assert_eq!(only_limit(&promise).bound, expected, "{size} {max_wait_ms}");
    }
}

#[test]
fn concurrency_promises_permits_and_lease() {
    let promise = promise(rule("reports").per("user").concurrency(3));
    let limit = only_limit(&promise);
    assert_eq!(limit.bound, AdmissionBound::AtOnce { permits: 3, warned: None, lease_ns: Some(MIN_NS) });
    assert_eq!(limit.longest_refusal_ns, None, "it depends on the holders of the permits");
}

#[test]
fn equal_grants_are_listed_together() {
    let mut rule = built(rule("per-user").per("user").limit("60/min").limit("10/s"));
    let Allowance::Same(Grant::Limited(quotas)) = rule.allowance else { panic!("it is limited") };
    let grant = |at: usize| Grant::Limited(vec![quotas[at]]);
    rule.allowance = Allowance::Tiers(vec![
        ("free".to_owned(), grant(0)),
        ("pro".to_owned(), grant(1)),
        ("basic".to_owned(), grant(0)),
    ]);
    rule.overrides = vec![
        Override { key: vec![TextPattern("42".to_owned())], grant: grant(1) },
        Override { key: vec![TextPattern("svc-*".to_owned())], grant: Grant::Unlimited },
    ];
    let promise = Promise::of(&rule, &StoreSettings::default(), None);
    let whose: Vec<Vec<GrantedTo>> = promise.grants.iter().map(|grant| grant.whose.clone()).collect();
    let (tier, keys) =
        (|name: &str| GrantedTo::Tier(name.to_owned()), |key: &str| GrantedTo::Keys(vec![key.to_owned()]));
    assert_eq!(whose, [vec![tier("free"), tier("basic")], vec![tier("pro"), keys("42")], vec![keys("svc-*")]]);
    assert!(promise.grants[2].is_unlimited());
    let text = promise.to_string();
    for line in ["  tiers free and basic: 60/min", "  tier pro; user 42: 10/s", "  user svc-*: unlimited"] {
        assert!(text.lines().any(|other| other.starts_with(line)), "{text}");
    }
}

#[test]
fn each_quota_of_a_grant_has_its_own_figures() {
    let promise = promise(rule("api").per("user").limit("10/s").limit("100/min"));
    assert_eq!(promise.grants.len(), 1);
    let periods: Vec<u64> = promise.grants[0].limits.iter().map(|limit| limit.quota.period_ns()).collect();
    assert_eq!(periods, [S_NS, MIN_NS]);
    assert_eq!(promise.longest_refusal_ns(), Some(600 * MS_NS));
}

#[test]
fn local_fallback_promises_the_share_of_an_instance() {
    // Rate and burst are scaled and rounded down, and at least 1.
    for (rate, share, shared, in_period, longest_s) in [
        ("60/min burst 90", (1, 4), "15/min burst 22", 37, 4),
        ("3/min", (1, 4), "1/min burst 1", 2, 60),
        ("5/min", (1, 1), "5/min burst 5", 10, 12),
    ] {
        let rule = built(rule("r").per("user").limit(rate));
        let promise = Promise::of(&rule, &redis(FailureMode::Local, share), None);
        let share = only_limit(&promise).share.clone().unwrap();
        assert_eq!(share.quota, Quota::token_bucket(shared.parse().unwrap()).unwrap());
        assert!(
            matches!(share.bound, AdmissionBound::Spans { in_period: most, .. } if most == charged(in_period)),
            "{share:?}"
        );
        assert_eq!(share.longest_refusal_ns, Some(longest_s * S_NS), "{share:?}");
    }
}

#[test]
fn failure_mode_of_the_rule_precedes_that_of_the_store() {
    let mut rule = built(rule("r").per("user").limit("60/min"));
    assert_eq!(Promise::of(&rule, &StoreSettings::default(), None).on_failure, None);
    let store = redis(FailureMode::Local, (1, 2));
    assert_eq!(Promise::of(&rule, &store, None).on_failure, Some(FailureMode::Local));
    rule.on_failure = Some(FailureMode::Closed);
    let promise = Promise::of(&rule, &store, None);
    assert_eq!((promise.on_failure, &only_limit(&promise).share), (Some(FailureMode::Closed), &None));
}

#[test]
fn figures_of_a_rule_with_costs_are_costs() {
    assert_eq!(promise(rule("r").limit("60/min")).unit, Unit::Requests);
    assert_eq!(promise(rule("r").limit("60/min").cost(1)).unit, Unit::Requests);
    let heavy = promise(rule("r").limit("60/min").cost(6));
    assert_eq!(heavy.unit, Unit::Cost);
    assert_eq!(heavy.longest_refusal_ns(), Some(6 * S_NS), "six tokens must be refilled");
}

#[test]
fn promise_text_equals_the_expected_text() {
    let ten_min = Duration::from_secs(600);
    let login = rule("login").per("client_ip").limit("5/min").algorithm(AlgorithmKind::SlidingWindowLog);
    for (builder, text) in [
        (
            rule("per-ip").per("client_ip").limit("60/min"),
            "per-ip: for each client_ip
  60/min burst 60, token-bucket
    at most 120 requests in any minute, 61 in any second
    60 at once, and 60 more as the bucket refills; sliding-window-log admits 60 in any minute
    a refusal lasts at most 1s, at a cost of 1",
        ),
        (
            login.on_limit(2, ten_min, Some((20, Duration::from_secs(900)))),
            "login: for each client_ip
  5/min, sliding-window-log
    at most 7 requests (2 of them with a warning) in any minute, 7 (2 of them with a warning) in any second
    a refusal lasts at most 1min, at a cost of 1
  after 20 requests above the limit within 10min, the next one blocks the key for 15min",
        ),
        (
            rule("pay").limit("5/s").queue(10, Duration::from_secs(2)).cost(1),
            "pay: for all clients together
  5/s, leaky-bucket with a queue
    at most 6 requests in any second leave the queue (15 requests in any second over RESP and Envoy, where responses are not delayed); it holds 10, and the wait is at most 1s 800ms
    a refusal lasts at most 200ms",
        ),
        (
            rule("scrapers").per("client_ip").limit("30/min").algorithm(AlgorithmKind::FixedWindow),
            "scrapers: for each client_ip
  30/min, fixed-window
    at most 60 requests in any minute, 60 in any second
    30 at the end of one window, and 30 at the start of the next; sliding-window-log admits 30 in any minute
    a refusal lasts at most 1min, at a cost of 1",
        ),
        (
            rule("uploads").per("user").concurrency(2).on_limit(2, ten_min, None),
            "uploads: for each user
  2 at once, concurrency
    at most 4 requests at once, 2 of them with a warning and without a permit, if warned requests end within 10min; a permit that is not released expires after 1min",
        ),
        (
            rule("reports").per("user").per("route").method("GET").path("/reports/{year}").path("/r/*").concurrency(1),
            "reports: for each user and route
  when method GET or HEAD; path /reports/{year} or /r/*
  1 at once, concurrency
    at most 1 request at once; a permit that is not released expires after 1min",
        ),
        (
            rule("new").per("user").limit("60/min").shadow(),
            "new: for each user
  shadow: counted and reported, never refused
  60/min burst 60, token-bucket",
        ),
        (
            rule("tokens").per("user").limit("60/min").estimate(5).on_limit(1, ten_min, None),
            "tokens: for each user
  60/min burst 60, token-bucket
    at most a cost of 120 and 1 request with a warning in any minute, a cost of 61 and 1 request with a warning in any second
    60 at once, and 60 more as the bucket refills; sliding-window-log admits 60 in any minute
    a refusal lasts at most 5s, at a cost of 5
    cost settled above its estimate becomes debt, at most 60: with it a cost of at most 180 is charged in any minute, a refusal then lasts at most 1min 5s; cost beyond the debt is not charged",
        ),
        (
            rule("tokens").per("user").limit("60/min").estimate(5).max_debt(0),
            "tokens: for each user
  60/min burst 60, token-bucket
    at most a cost of 120 in any minute, 61 in any second
    60 at once, and 60 more as the bucket refills; sliding-window-log admits 60 in any minute
    a refusal lasts at most 5s, at a cost of 5
    cost settled above its estimate is charged as far as it fits; the rest is not charged",
        ),
        (rule("open").per("user").limit("unlimited"), "open: for each user\n  unlimited"),
    ] {
        assert_eq!(promise(builder).to_string(), text);
    }
}

#[test]
fn promise_text_states_the_failure_mode() {
    let rule = built(rule("r").per("user").limit("60/min"));
    let text = |on_failure| Promise::of(&rule, &redis(on_failure, (1, 4)), None).to_string();
    assert!(text(FailureMode::Open).ends_with("\n  while the store fails, all requests pass"));
    assert!(text(FailureMode::Closed).ends_with("\n  while the store fails, all requests are refused"));
    let local = "
    while the store fails: 15/min burst 15, at most 30 requests in any minute, 15 in any second; a refusal lasts at most 4s, at a cost of 1
  while the store fails, each instance counts alone: an outage adds at most its share, times the number of instances";
    assert!(text(FailureMode::Local).ends_with(local), "{}", text(FailureMode::Local));
}

#[test]
fn promise_states_what_leases_withhold_and_add() {
    use AlgorithmKind::{FixedWindow, SlidingWindowCounter, SlidingWindowLog, TokenBucket};
    let StoreSettings::Redis(redis) = redis(FailureMode::Closed, (1, 2)) else { panic!("on Redis") };
    let store =
        StoreSettings::Redis(RedisSettings { consistency: Consistency::Leased, lease_ns: 250 * MS_NS, ..redis });
    for (rate, algorithm, most) in [
        ("1000/s burst 3001", TokenBucket, Ok(1_500)),
        ("20/s", TokenBucket, Ok(20)),
        ("1199/min", TokenBucket, Err(NotLeased::Slow)),
        ("20/s burst 3", TokenBucket, Err(NotLeased::Small)),
        ("6000/min", FixedWindow, Ok(3_000)),
        ("6000/min", SlidingWindowLog, Ok(3_000)),
        ("6000/min", SlidingWindowCounter, Ok(3_000)),
        ("100/min", SlidingWindowCounter, Err(NotLeased::Slow)),
    ] {
        let rule = built(rule("r").per("user").limit(rate).algorithm(algorithm));
        let (leased, exact) = (Promise::of(&rule, &store, None), Promise::of(&rule, &StoreSettings::default(), None));
        assert_eq!((leased.consistency, leased.lease_ns), (Some(Consistency::Leased), Some(250 * MS_NS)));
        assert_eq!((exact.consistency, exact.lease_ns), (None, None));
        let (leased, exact) = (only_limit(&leased), only_limit(&exact));
        let expected = most.map(|most| LeaseBound { most, expires_ns: 500 * MS_NS });
        assert_eq!((leased.lease, exact.lease), (Some(expected), None), "{rate} {algorithm}");
        assert_eq!(leased.bound, exact.bound, "leases keep the bound");
    }
}

#[test]
fn promise_text_states_leases() {
    let StoreSettings::Redis(redis) = redis(FailureMode::Closed, (1, 2)) else { panic!("on Redis") };
    let store = StoreSettings::Redis(RedisSettings { consistency: Consistency::Leased, ..redis });
    let text = |builder| Promise::of(&built(builder), &store, None).to_string();
    let bucket = rule("r").per("user").limit("1000/s").limit("100/min");
    let expected = "r: for each user
  1000/s burst 2000, token-bucket
    at most 3,000 requests in any second
    2,000 at once, and 1,000 more as the bucket refills; sliding-window-log admits 1,000 in any second
    a refusal lasts at most 1ms, at a cost of 1
    leased: other instances can hold up to 1,000 tokens, and refusals last longer meanwhile; a failover, an eviction or a forward step of the server's clock admits at most 1,000 more than in exact mode
  100/min burst 100, token-bucket
    at most 200 requests in any minute, 101 in any second
    100 at once, and 100 more as the bucket refills; sliding-window-log admits 100 in any minute
    a refusal lasts at most 600ms, at a cost of 1
    exact: a limit below 20 a second is not leased, so the store decides every request
  leases keep these bounds; tokens of an instance that fails count as spent within 2s; a key with fewer than 20 requests a second at an instance stays exact
  while the store fails, all requests are refused";
    assert_eq!(text(bucket), expected);
    let window = text(rule("r").per("user").limit("1000/s").algorithm(AlgorithmKind::FixedWindow));
    assert!(window.contains("\n  leases keep these bounds; tokens of an instance that fails count as spent within 2s, and until their window ends; "), "{window}");
    // Rules without a leased limit have no line about leases.
    for builder in [rule("r").limit("100/min"), rule("r").limit("1000/s").consistency(Consistency::Exact)] {
        assert!(!text(builder).contains("leases keep"));
    }
    let permits = text(rule("r").per("user").concurrency(3));
    assert!(!permits.contains("leases") && !permits.contains("exact"), "{permits}");
}

/// Returns the promise of a rule of 10 per minute with costs from `source`, at most `max`.
fn costing(source: CostSource, max: u64) -> Promise {
    let mut rule = built(rule("r").per("user").limit("10/min"));
    rule.cost = Cost { source, max, settled_by: None };
    Promise::of(&rule, &StoreSettings::default(), None)
}

fn by_method(costs: &[(&str, u64)]) -> CostSource {
    let costs = costs.iter().map(|(method, cost)| ((*method).to_owned(), *cost)).collect();
    CostSource::Methods { costs, default: 1 }
}

fn by_header() -> CostSource {
    CostSource::Header { name: "x-cost".to_owned(), default: 1 }
}

#[test]
fn longest_refusal_is_that_of_the_largest_cost_that_can_pass() {
    // The source of the cost, the maximum of a request's cost, the longest refusal in seconds, the cost of that
    // refusal, and the cost above which nothing ever passes.
    for (source, max, longest_s, cost, never_above) in [
        (CostSource::Fixed(1), 1_000, 6, 1, None),
        (CostSource::Fixed(10), 1_000, 60, 10, None),
        (by_method(&[("POST", 5)]), 1_000, 30, 5, None),
        (by_method(&[("POST", 5), ("PUT", 11)]), 1_000, 30, 5, Some(10)),
        (by_header(), 1_000, 60, 10, Some(10)),
        (by_header(), 10, 60, 10, None),
        (by_header(), 4, 24, 4, None),
        (CostSource::Estimate(3), 1_000, 18, 3, None),
        (CostSource::OfTheRequest, 1_000, 6, 1, None),
    ] {
        let promise = costing(source.clone(), max);
        let limit = only_limit(&promise);
        assert_eq!(limit.longest_refusal_ns, Some(longest_s * S_NS), "{source:?} {max}");
        assert_eq!((limit.refusal_cost, limit.never_above), (cost, never_above), "{source:?} {max}");
    }
}

#[test]
fn longest_refusals_of_a_list_exclude_costs_that_never_pass() {
    let mut rule = built(rule("r").per("user").limit("10/min").limit("100/h"));
    rule.cost = Cost { source: by_header(), max: 1_000, settled_by: None };
    let promise = Promise::of(&rule, &StoreSettings::default(), None);
    let costs: Vec<_> = promise.grants[0].limits.iter().map(|limit| (limit.refusal_cost, limit.never_above)).collect();
    assert_eq!(costs, [(10, Some(10)), (10, Some(10))]);
}

#[test]
fn promise_text_states_the_cost_of_the_longest_refusal() {
    let text = costing(by_method(&[("POST", 5), ("PUT", 11)]), 1_000).to_string();
    let expected =
        "\n    a refusal lasts at most 30s, at a cost of 5\n    a request that costs more than 10 never passes";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn last_departure_of_a_queue_may_have_a_large_cost() {
    let mut rule = built(rule("r").limit("5/s").queue(10, Duration::from_secs(9)));
    rule.cost = Cost { source: by_method(&[("POST", 5)]), max: 1_000, settled_by: None };
    let promise = Promise::of(&rule, &StoreSettings::default(), None);
    let AdmissionBound::Queue { in_second, .. } = only_limit(&promise).bound else { panic!("it queues") };
    assert_eq!(in_second, charged(10), "six of cost 1, or the last of them of cost 5");
}

/// Returns how long a request of this cost is refused at `at_ns`, after these earlier requests.
fn refused_for<A: Algorithm>(algorithm: &A, arrivals: &[(u64, u64)], at_ns: u64, cost: u64) -> Option<u64> {
    let mut state = A::State::default();
    for &(arrival_ns, cost) in arrivals {
        algorithm.check(&mut state, arrival_ns, cost);
    }
    algorithm.peek(&state, at_ns, cost).retry_after()
}

proptest! {
    /// Whatever the earlier requests, no request is refused for longer than promised.
    #[test]
    fn no_refusal_lasts_longer_than_promised(
        count in 1_u64..6,
        burst in 1_u64..6,
        kind in 0..5,
        mut arrivals in prop::collection::vec((0_u64..4_000, 1_u64..6), 0..30),
        cost in 1_u64..8,
        max in 1_u64..8,
    ) {
        arrivals.sort_unstable();
        let (window, bucket) = (format!("{count}/s"), format!("{count}/s burst {burst}"));
        let builder = match kind {
            0 => rule("r").limit(&bucket),
            1 => rule("r").limit(&window).algorithm(AlgorithmKind::FixedWindow),
            2 => rule("r").limit(&window).algorithm(AlgorithmKind::SlidingWindowCounter),
            3 => rule("r").limit(&window).algorithm(AlgorithmKind::SlidingWindowLog),
            _ => rule("r").limit(&window).queue(burst, Duration::from_millis(700)),
        };
        let mut rule = built(builder);
        rule.cost = Cost { source: by_header(), max, settled_by: None };
        let promise = Promise::of(&rule, &StoreSettings::default(), None);
        let limit = only_limit(&promise);
        let arrivals: Vec<(u64, u64)> =
            arrivals.iter().map(|(ms, cost)| (10 * S_NS + ms * MS_NS, (*cost).min(max))).collect();
        let at_ns = arrivals.last().map_or(10 * S_NS, |(at_ns, _)| *at_ns);
        let (quota, tick, cost) = (&limit.quota, Tick::Nanosecond, cost.min(max));
        let refused_ns = match kind {
            1 => refused_for(&FixedWindow::new(quota, tick).unwrap(), &arrivals, at_ns, cost),
            2 => refused_for(&SlidingCounter::new(quota, tick).unwrap(), &arrivals, at_ns, cost),
            3 => refused_for(&SlidingLog::new(quota, tick).unwrap(), &arrivals, at_ns, cost),
            _ => refused_for(&Bucket::new(quota, tick).unwrap(), &arrivals, at_ns, cost),
        };
        prop_assert!(refused_ns <= limit.longest_refusal_ns, "{refused_ns:?} at {cost}, {limit:?}");
    }
}

#[test]
fn max_debt_is_that_of_the_rule_or_its_default() {
    let built = |rule| promise(rule).grants[0].limits[0].clone();
    let by_default = built(rule("r").per("user").limit("1000/h").estimate(100));
    assert_eq!(by_default.quota.max_debt(), 1_000);
    let debt = by_default.debt.unwrap();
    assert_eq!((debt.most, debt.charged_in_period), (1_000, 3_000));
    // All of the burst is used and as much is owed: a cost of 100 needs a refill of 1,100.
    assert_eq!(debt.longest_refusal_ns, Some(3_960 * S_NS));
    let configured = built(rule("r").per("user").limit("1000/h").estimate(100).max_debt(50));
    assert_eq!(configured.debt.unwrap().most, 50);
    assert_eq!(built(rule("r").per("user").limit("1000/h")).debt, None, "nothing is settled");
    assert_eq!(built(rule("r").per("user").limit("1000/h").max_debt(7)).debt.unwrap().most, 7);
    assert_eq!(built(rule("r").per("user").limit("1000/h").cost(3).max_debt(7)).debt, None, "its cost is fixed");
    let refused = PolicyBuilder::default().rule(rule("r").per("user").concurrency(3).max_debt(1)).build();
    assert!(
        refused.unwrap_err().to_string().contains("`max_debt` is for rates and cannot be combined with `concurrency`")
    );
}
