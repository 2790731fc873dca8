//! Regions, and which limits they divide.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{AlgorithmKind, Quota};
use tollgate_policy::model::{
    Allowance, Consistency, CostSource, GlobalServer, Grant, RedisSettings, Regions, StoreSettings,
};
use tollgate_policy::promise::{Promise, promises};
use tollgate_policy::published::Published;
use tollgate_policy::{CheckedPolicy, CompiledPolicy, Policy, PolicyBuilder, RuleBuilder, budget, rule};

const S: Duration = Duration::from_secs(1);

fn global() -> GlobalServer {
    GlobalServer::at(vec!["global:6379".to_owned()])
}

fn regions(weights: &[(&str, u32)]) -> Regions {
    Regions::new(weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect(), global())
}

fn three() -> Regions {
    regions(&[("eu", 50), ("us", 30), ("ap", 20)])
}

/// A policy on Redis with this consistency of all rules.
fn on_redis(by_default: Consistency) -> PolicyBuilder {
    PolicyBuilder::default().regions(three()).with(|policy| {
        let redis = RedisSettings { consistency: by_default, ..RedisSettings::at(vec!["localhost:6379".to_owned()]) };
        policy.store = StoreSettings::Redis(redis);
    })
}

fn limited() -> RuleBuilder {
    rule("a").per("user").limit("1000/min")
}

fn errors(policy: PolicyBuilder) -> Vec<String> {
    let errors = policy.build().map_or_else(|errors| errors.0, |_| Vec::new());
    errors.iter().map(|error| format!("{} {}", error.path, error.code)).collect()
}

#[test]
fn consistency_of_the_rule_precedes_that_of_the_store() {
    use Consistency::{Exact, Leased, Regional};
    for (by_default, own, is_regional) in [
        (Exact, None, false),
        (Exact, Some(Regional), true),
        (Leased, Some(Regional), true),
        (Regional, None, true),
        (Regional, Some(Exact), false),
        (Regional, Some(Leased), false),
    ] {
        let built = own.into_iter().fold(limited(), RuleBuilder::consistency);
        let policy = on_redis(by_default).rule(built).build().unwrap();
        let compiled = CompiledPolicy::new(&policy).unwrap();
        assert_eq!(compiled.rules()[0].regional, is_regional, "{by_default:?} {own:?}");
        assert!(!is_regional || compiled.rules()[0].lease.is_none(), "a regional rule leases no tokens");
    }
}

#[test]
fn limits_that_cannot_be_divided_are_errors() {
    use AlgorithmKind::{FixedWindow, LeakyBucket, SlidingWindowCounter, SlidingWindowLog, TokenBucket};
    for algorithm in [TokenBucket, LeakyBucket] {
        assert_eq!(errors(on_redis(Consistency::Regional).rule(limited().algorithm(algorithm))), [""; 0]);
    }
    for (built, member) in [
        (limited().algorithm(FixedWindow), "algorithm"),
        (limited().algorithm(SlidingWindowLog), "algorithm"),
        (limited().algorithm(SlidingWindowCounter), "algorithm"),
        (limited().queue(5, S), "queue"),
        (limited().on_limit(1, S, None), "on_limit"),
        (limited().shadow(), "shadow"),
        (rule("a").per("user").concurrency(30), "concurrency"),
    ] {
        let by_default = on_redis(Consistency::Regional).rule(built.clone());
        assert_eq!(errors(by_default), [format!("rules[0].{member} not-regional")]);
        let own = built.clone().consistency(Consistency::Regional);
        assert_eq!(errors(on_redis(Consistency::Exact).rule(own)), ["rules[0].consistency not-regional"]);
        let exact = built.consistency(Consistency::Exact);
        assert_eq!(errors(on_redis(Consistency::Regional).rule(exact)), [""; 0]);
    }
    for built in [rule("a").deny(), rule("a").per("user").limit("unlimited").shadow()] {
        assert_eq!(errors(on_redis(Consistency::Regional).rule(built)), [""; 0]);
    }
}

#[test]
fn every_quota_of_a_policy_is_checked() {
    let regional = || on_redis(Consistency::Regional);
    let small = "small-region-share";
    assert_eq!(errors(regional().rule(rule("a").limit("5/min"))), [""; 0]);
    assert_eq!(errors(regional().rule(rule("a").limit("4/min"))), [format!("rules[0].limit[0] {small}")]);
    assert_eq!(
        errors(regional().rule(rule("a").limit("100/min").limit("4/h"))),
        [format!("rules[0].limit[1] {small}")]
    );
    let tiers = |policy: PolicyBuilder| policy.tier_from(tollgate_policy::model::IdentitySource::Given, "free");
    let by_tier = rule("a").tier("free", "4/min").tier("pro", "100/min").tier("enterprise", "unlimited");
    assert_eq!(errors(tiers(regional()).rule(by_tier)), [format!("rules[0].tiers.free[0] {small}")]);
    let shared = regional().budget(budget("b").per("user").limit("4/min")).rule(rule("a").budget("b"));
    assert_eq!(errors(shared), [format!("budgets.b.limit[0] {small}")]);
}

#[test]
fn costs_that_do_not_fit_every_region_are_errors() {
    let codes = |built: RuleBuilder| errors(on_redis(Consistency::Regional).rule(built));
    let above = ["rules[0].cost cost-above-share"];
    // The region `ap` has a burst of 200.
    assert_eq!(codes(limited().cost(200)), [""; 0]);
    assert_eq!(codes(limited().cost(201)), above);
    assert_eq!(codes(limited().estimate(201)), above);
    assert_eq!(codes(limited().cost_for_path("/export", 201)), above);
    // The limit never admits that cost; another message is about it.
    assert_eq!(codes(limited().cost(1_001)), ["rules[0].cost cost-never-fits"]);
    assert_eq!(codes(limited().cost_for_path("/export", 1_001)), [""; 0]);
    let shared = |cost| {
        let tokens = budget("tokens").per("user").limit("1000/min");
        errors(on_redis(Consistency::Regional).budget(tokens).rule(rule("a").budget("tokens").cost(cost)))
    };
    assert_eq!((shared(200), shared(201)), (vec![], above.map(str::to_owned).to_vec()));
}

#[test]
fn regions_out_of_range_are_errors() {
    let with = |change: &dyn Fn(&mut Regions)| {
        let mut changed = three();
        change(&mut changed);
        errors(PolicyBuilder::default().regions(changed).rule(limited().consistency(Consistency::Regional)))
    };
    let sync = |sync_ns| with(&|regions| regions.sync_ns = sync_ns);
    for sync_ns in [1_000_000_000, 1_001_000_000, 600_000_000_000] {
        assert_eq!(sync(sync_ns), [""; 0]);
    }
    for sync_ns in [0, 999_000_000, 1_000_000_001, 600_001_000_000] {
        assert_eq!(sync(sync_ns), ["regions.sync out-of-range"], "{sync_ns}");
    }
    assert_eq!(with(&|regions| regions.weights.truncate(1)), ["regions.weights out-of-range"]);
    assert_eq!(with(&|regions| regions.weights[1].1 = 0), ["regions.weights.us out-of-range"]);
    assert_eq!(with(&|regions| regions.weights[1].1 = 1_000_001)[0], "regions.weights.eu out-of-range");
    assert_eq!(with(&|regions| regions.weights[1].0 = "eu".to_owned()), ["regions.weights.eu duplicate-name"]);
    assert_eq!(with(&|regions| regions.weights[1].0 = "-".to_owned()), ["regions.weights.- bad-name"]);
    assert_eq!(with(&|regions| regions.own = Some("sa".to_owned())), ["regions.self unknown-region"]);
    assert_eq!(with(&|regions| regions.global.nodes.clear()), ["regions.global.nodes empty-list"]);
    assert_eq!(with(&|regions| regions.global.nodes[0] = "x".to_owned()), ["regions.global.nodes[0] bad-node"]);
    let many: Vec<(String, u32)> = (0..65).map(|at| (format!("r{at}"), 1)).collect();
    assert_eq!(with(&|regions| regions.weights.clone_from(&many)), ["regions.weights out-of-range"]);
    assert_eq!(with(&|regions| regions.weights = many[..64].to_vec()), [""; 0]);
}

#[test]
fn smallest_weight_is_a_thousandth_of_the_sum() {
    let codes = |small| {
        let regions = regions(&[("eu", 999), ("us", small)]);
        let built = rule("a").limit("100000/min").consistency(Consistency::Regional);
        errors(PolicyBuilder::default().regions(regions).rule(built))
    };
    assert_eq!(codes(1), [""; 0]);
    let regions = regions(&[("eu", 1_000), ("us", 1)]);
    let built = rule("a").limit("100000/min").consistency(Consistency::Regional);
    assert_eq!(errors(PolicyBuilder::default().regions(regions).rule(built)), ["regions.weights.us out-of-range"]);
}

#[test]
fn region_of_the_instance_replaces_that_of_the_policy() {
    let policy = || on_redis(Consistency::Regional).rule(limited()).build().unwrap();
    assert!(policy().lacks_region());
    let in_us = policy().in_region("us").unwrap();
    assert!(!in_us.lacks_region());
    assert_eq!(in_us.clone().in_region("ap").unwrap().regions.as_ref().unwrap().own.as_deref(), Some("ap"));
    let error = policy().in_region("eup").unwrap_err();
    assert_eq!(error.to_string(), "unknown region `eup`");
    assert_eq!(error.hint, "did you mean `eu`?\nknown regions: `eu`, `us` and `ap`");
    // Without regional rules, and without regions, a region has no effect.
    assert!(!on_redis(Consistency::Exact).rule(limited()).build().unwrap().lacks_region());
    let without = PolicyBuilder::default().rule(limited()).build().unwrap();
    assert_eq!(without.clone().in_region("us").unwrap().regions, None);
}

#[test]
fn fallback_share_of_a_regional_rule_is_multiplied_by_that_of_its_region() {
    let policy = on_redis(Consistency::Regional)
        .rule(limited())
        .rule(rule("b").limit("60/min").consistency(Consistency::Exact))
        .build()
        .unwrap();
    let shares = |policy: &CheckedPolicy| {
        let compiled = CompiledPolicy::new(policy).unwrap();
        let quota = Quota::token_bucket("1000/min".parse().unwrap()).unwrap();
        compiled.rules().iter().map(|rule| quota.share(rule.fallback_share).burst()).collect::<Vec<_>>()
    };
    // Half of the limit, and half of three tenths of it.
    assert_eq!(shares(&policy), [500, 500]);
    assert_eq!(shares(&policy.clone().in_region("us").unwrap()), [150, 500]);
    // The promise states the same.
    let in_us = policy.in_region("us").unwrap();
    let promise = &promises(&in_us)[0];
    let regional = promise.grants[0].limits[0].regional.as_ref().unwrap();
    assert_eq!(regional.regions[0].fallback.as_ref().unwrap().quota.burst(), 150);
}

#[test]
fn override_leaves_the_region_at_least_one_token() {
    let compiled = |own: Option<&str>| {
        let policy = on_redis(Consistency::Regional).rule(limited());
        let policy = policy.rule(rule("b").limit("60/min").consistency(Consistency::Exact)).build().unwrap();
        CompiledPolicy::new(&own.map_or(policy.clone(), |own| policy.in_region(own).unwrap())).unwrap()
    };
    let is_accepted = |own, rule, text: &str| compiled(own).read_grant(rule, text).is_ok();
    // The smallest region has a fifth of the burst, `eu` half of it.
    assert_eq!(["5/min", "4/min"].map(|text| is_accepted(None, 0, text)), [true, false]);
    assert_eq!(["2/min", "1/min"].map(|text| is_accepted(Some("eu"), 0, text)), [true, false]);
    assert!(is_accepted(None, 1, "1/min"), "an exact limit is not divided");
    let error = compiled(None).read_grant(0, "100/h, 4/min").unwrap_err();
    assert_eq!(error.to_string(), "`4/min burst 4` leaves a region less than one token: raise the burst");
}

#[test]
fn promise_states_all_regions_unless_one_is_set() {
    let policy = |own: Option<&str>| {
        let policy = PolicyBuilder::default().regions(three()).rule(limited().consistency(Consistency::Regional));
        let policy = policy.rule(rule("b").limit("60/min")).build().unwrap();
        own.map_or(policy.clone(), |own| policy.in_region(own).unwrap())
    };
    let names = |promise: &Promise| -> Vec<String> {
        let regional = promise.grants[0].limits[0].regional.iter();
        regional.flat_map(|regional| &regional.regions).map(|region| region.region.clone()).collect()
    };
    let all = promises(&policy(None));
    assert_eq!((names(&all[0]), names(&all[1])), (vec!["eu".into(), "us".into(), "ap".into()], vec![]));
    assert_eq!([&all[0], &all[1]].map(|promise| promise.is_in_each_region), [false, true]);
    assert_eq!([&all[0], &all[1]].map(|promise| promise.consistency), [Some(Consistency::Regional), None]);
    let us = promises(&policy(Some("us")));
    assert_eq!(names(&us[0]), ["us"]);
    // The counters are in memory, so a restart loses them.
    let expected = "a: for each user
  1000/min burst 1000, token-bucket
    at most 2,000 requests in any minute, 1,016 in any second
    1,000 at once, and 1,000 more as the bucket refills; sliding-window-log admits 1,000 in any minute
    a refusal lasts at most 4s, at a cost of 1
    regional: these bounds are for all regions together; a failover of the global server or a step of its clock admits at most 159 more
    us: burst 300 and 30% of the rate, with loans up to 96.5%; at least 1.5%, also for a key that is new to the region; a restart of its instance admits at most 395 more, and until the global server has answered, the region enforces its share alone
  regions lend rates for epochs of 10s; without the global server, each enforces at most its share";
    assert_eq!(us[0].to_string(), expected);
    assert!(us[1].to_string().ends_with("\n  each region enforces this by itself: the figures are for one region"));
}

#[test]
fn published_limits_are_those_of_all_regions_together() {
    let published = |consistency| {
        let policy = on_redis(consistency).rule(limited()).build().unwrap();
        Published::of(&policy.in_region("ap").unwrap())
    };
    assert_eq!(published(Consistency::Regional), published(Consistency::Exact));
}

#[test]
fn cost_above_the_share_of_the_region_never_passes() {
    let from_client = CostSource::Header { name: "x-cost".to_owned(), default: 1 };
    let policy = PolicyBuilder::default().regions(three()).rule(limited().consistency(Consistency::Regional));
    let policy = Policy::clone(&policy.build().unwrap());
    let never_above = |own: Option<&str>| {
        let mut policy = policy.clone();
        policy.rules[0].cost.source = from_client.clone();
        policy.regions.as_mut().unwrap().own = own.map(str::to_owned);
        promises(&policy.check().unwrap())[0].grants[0].limits[0].never_above
    };
    assert_eq!([None, Some("eu"), Some("ap")].map(never_above), [Some(200), Some(500), Some(200)]);
}

fn any_regions() -> impl Strategy<Value = Regions> {
    let weights = prop::collection::vec(1_u32..=1_000, 2..=8);
    weights.prop_map(|weights| {
        let named = (0..).zip(weights).map(|(at, weight): (u32, u32)| (format!("r{at}"), weight));
        Regions::new(named.collect(), global())
    })
}

fn any_rate() -> impl Strategy<Value = String> {
    let unit = prop_oneof![Just("s"), Just("min"), Just("h"), Just("day")];
    (1_u64..=2_000, unit, 1_u64..=2_000).prop_map(|(amount, unit, burst)| format!("{amount}/{unit} burst {burst}"))
}

fn any_cost() -> impl Strategy<Value = CostSource> {
    let costs = || (1_u64..=300, 1_u64..=50);
    prop_oneof![
        Just(CostSource::OfTheRequest),
        (1_u64..=300).prop_map(CostSource::Fixed),
        (1_u64..=300).prop_map(CostSource::Estimate),
        costs().prop_map(|(cost, default)| CostSource::Paths { costs: vec![("/a".to_owned(), cost)], default }),
        costs().prop_map(|(cost, default)| CostSource::Methods { costs: vec![("POST".to_owned(), cost)], default }),
    ]
}

/// The costs that a policy states.
fn stated(source: &CostSource) -> Vec<u64> {
    match source {
        CostSource::Fixed(cost) | CostSource::Estimate(cost) => vec![*cost],
        CostSource::Paths { costs, default } | CostSource::Methods { costs, default } => {
            costs.iter().map(|(_, cost)| *cost).chain([*default]).collect()
        }
        _ => vec![1],
    }
}

/// The quotas of each grant of a rule with limits.
fn grants(allowance: &Allowance) -> Vec<&[Quota]> {
    let all: Vec<&Grant> = match allowance {
        Allowance::Same(grant) => vec![grant],
        Allowance::Tiers(tiers) => tiers.iter().map(|(_, grant)| grant).collect(),
        Allowance::Deny => Vec::new(),
    };
    let quotas = |grant: &&Grant| matches!(grant, Grant::Limited(_));
    all.into_iter()
        .filter(quotas)
        .map(|grant| if let Grant::Limited(quotas) = grant { &quotas[..] } else { &[] })
        .collect()
}

/// Whether every region can enforce the limits of a rule, and admits every cost that the limits admit. Written without
/// the functions of the check.
fn is_enforceable(policy: &Policy) -> bool {
    policy.rules.iter().filter(|rule| rule.is_regional(&policy.store)).all(|rule| {
        policy.regions.as_ref().unwrap().shares().all(|(_, share)| {
            grants(&rule.allowance).into_iter().all(|quotas| {
                let parts: Option<Vec<Quota>> = quotas.iter().map(|quota| share.quota(quota).ok()).collect();
                let smallest = |quotas: &[Quota]| quotas.iter().map(Quota::burst).min().unwrap();
                parts.is_some_and(|parts| {
                    let fits = |cost: &u64| *cost > smallest(quotas) || *cost <= smallest(&parts);
                    stated(&rule.cost.source).iter().all(fits)
                })
            })
        })
    })
}

proptest! {
    #[test]
    fn accepted_policies_are_enforceable_in_every_region(
        regions in any_regions(),
        rates in prop::collection::vec(any_rate(), 1..=2),
        tier in any_rate(),
        cost in any_cost(),
        form in 0..3,
    ) {
        let policy = PolicyBuilder::default()
            .regions(regions)
            .tier_from(tollgate_policy::model::IdentitySource::Given, "free")
            .with(|policy| policy.store = StoreSettings::Redis(RedisSettings {
                consistency: Consistency::Regional,
                ..RedisSettings::at(vec!["localhost:6379".to_owned()])
            }));
        let limited = |built: RuleBuilder| rates.iter().fold(built, |built, rate| built.limit(rate));
        let policy = match form {
            0 => policy.rule(limited(rule("a"))),
            1 => policy.rule(rule("a").tier("free", &rates[0]).tier("pro", &tier)),
            _ => {
                let shared = rates.iter().fold(budget("b"), |budget, rate| budget.limit(rate));
                policy.budget(shared).rule(rule("a").budget("b"))
            }
        };
        // The cost is set after the builder, which has no method for some sources.
        let Ok(policy) = policy.build() else { return Ok(()) };
        let mut policy = Policy::clone(&policy);
        policy.rules[0].cost.source = cost;
        let unchecked = policy.clone();
        match policy.check() {
            Ok(accepted) => prop_assert!(is_enforceable(&accepted)),
            // The check refuses no more than it must.
            Err(errors) if errors.0.iter().all(|error| error.code == "cost-above-share") => {
                prop_assert!(!is_enforceable(&unchecked));
            }
            Err(_) => {}
        }
    }

    #[test]
    fn regions_never_lend_more_than_the_limit(regions in any_regions()) {
        let shares: u32 = regions.shares().map(|(_, share)| share.rate).sum();
        prop_assert!(shares <= 1_000);
        let policy = PolicyBuilder::default()
            .regions(regions)
            .rule(rule("a").limit("100000/min").consistency(Consistency::Regional));
        let Ok(policy) = policy.build() else { return Ok(()) };
        let promise = &promises(&policy)[0];
        let regional = promise.grants[0].limits[0].regional.as_ref().unwrap();
        for region in &regional.regions {
            let others: u32 = regional.regions.iter().filter(|other| other.region != region.region)
                .map(|other| other.reserve_thousandths).sum();
            prop_assert!(region.with_loans_thousandths + others <= shares, "the reserves of others stay");
            prop_assert!(region.reserve_thousandths <= region.share_thousandths);
        }
    }
}
