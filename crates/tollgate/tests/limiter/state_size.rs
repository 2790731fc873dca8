//! What a policy promises, its store can hold.

use std::sync::Arc;
use std::time::Duration;

use tollgate::policy::model::{MemorySettings, StoreSettings};
use tollgate::policy::{CheckedPolicy, PolicyBuilder, RuleBuilder};
use tollgate::store::memory_options;
use tollgate::{AlgorithmKind, AsyncLimiter, Limiter, ManualClock, MemoryStore, rule};

use crate::support::{any, clock};

fn policy(entries: u64, rule: RuleBuilder) -> Result<CheckedPolicy, String> {
    let store = StoreSettings::Memory(MemorySettings { entries, ..MemorySettings::default() });
    let built = PolicyBuilder::default().rule(rule).with(|policy| policy.store = store).build();
    built.map_err(|errors| errors.to_string())
}

fn log(limit: &str) -> RuleBuilder {
    rule("log").limit(limit).algorithm(AlgorithmKind::SlidingWindowLog)
}

/// Sends this number of requests, evenly over a day.
fn passing(policy: &CheckedPolicy, requests: u64) -> u64 {
    let clock = clock();
    let limiter = Limiter::with_clock(policy, clock.clone()).unwrap();
    let gap_ns = 86_400_000_000_000 / requests;
    let pass = |_: &u64| {
        clock.advance(Duration::from_nanos(gap_ns - 1));
        limiter.check(&any()).is_allowed()
    };
    (0..requests).filter(pass).count() as u64
}

#[test]
fn large_logs_pass_their_limit_or_are_refused_with_the_capacity_that_they_need() {
    for (entries, limit, needed) in [(1_000_000, 300_000_u64, true), (1_000, 100_000, true), (1_000, 6_000, false)] {
        let refused = policy(entries, log(&format!("{limit}/day")));
        assert_eq!(refused.is_err(), needed, "{limit}/day with {entries} entries");
        let enough = match refused {
            Ok(policy) => policy,
            Err(message) => {
                let (_, hint) = message.split_once("entries: ").unwrap_or_else(|| panic!("{message}"));
                let digits: String = hint.chars().take_while(char::is_ascii_digit).collect();
                policy(digits.parse().unwrap(), log(&format!("{limit}/day"))).unwrap()
            }
        };
        assert_eq!(passing(&enough, limit), limit);
        assert_eq!(passing(&enough, limit + 1000), limit, "and no more");
    }
}

/// The policy and the store reckon alike, each on its own.
#[test]
fn policy_and_store_agree_on_what_fits() {
    let settings = |entries| MemorySettings { entries, ..MemorySettings::default() };
    for entries in [1, 9, 42, 43, 64, 85, 86, 128, 1_000, 43_690, 43_691, 43_692, 65_536, 1_000_000] {
        let store = Arc::new(MemoryStore::with(memory_options(&settings(entries)), ManualClock::at(0)).unwrap());
        let mut fits = (0, u64::MAX);
        for limit in (1..40).map(|step| step * step * 211) {
            for rule in [log(&format!("{limit}/day")), rule("permits").concurrency(limit)] {
                let checked = policy(entries, rule.clone());
                let largest = policy(u64::from(u32::MAX), rule).unwrap();
                // The store alone, for a policy that was checked for another one.
                let prepared = AsyncLimiter::with_store(&largest, Arc::clone(&store));
                assert_eq!(checked.is_ok(), prepared.is_ok(), "{limit} with {entries} entries");
                fits = if checked.is_ok() { (fits.0.max(limit), fits.1) } else { (fits.0, fits.1.min(limit)) };
            }
        }
        assert!(fits.1 < u64::MAX, "{entries} entries hold everything: {fits:?}");
    }
}
