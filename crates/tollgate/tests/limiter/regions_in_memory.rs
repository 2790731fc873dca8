//! Regional limits in the memory store: each region has its share, and no loans.

use std::time::Duration;

use tollgate::Limiter;

use crate::support::{Manual, clock, costing};

const REGIONS: [(&str, u64); 3] = [("eu", 50), ("us", 30), ("ap", 20)];

fn in_region(region: &str, clock: &tollgate::ManualClock) -> Manual {
    let policy = format!(
        "version: 1
rules:
  - {{ name: divided, limit: 1000/min, consistency: regional }}
regions: {{ self: {region}, weights: {{ eu: 50, us: 30, ap: 20 }}, global: {{ nodes: ['127.0.0.1:1'] }} }}
"
    );
    Limiter::with_clock(&tollgate::policy::parse(&policy, "policy", None).unwrap().policy, clock.clone()).unwrap()
}

fn admitted(limiter: &Manual) -> u64 {
    (0..2_000).map(|_| u64::from(limiter.check(&costing(1)).is_allowed())).sum()
}

#[test]
fn region_in_memory_enforces_its_share_of_the_burst_and_of_the_rate() {
    let clock = clock();
    let regions = REGIONS.map(|(region, weight)| (in_region(region, &clock), weight));
    for (limiter, weight) in &regions {
        assert_eq!(admitted(limiter), 10 * weight);
    }
    clock.advance(Duration::from_secs(12));
    // A fifth of a minute.
    for (limiter, weight) in &regions {
        assert_eq!(admitted(limiter), 2 * weight);
    }
}

#[test]
fn override_of_a_regional_rule_in_memory_is_divided_too() {
    let clock = clock();
    let limiter = in_region("us", &clock);
    let set = crate::support::at_once(limiter.override_key("divided", "", "100/min", Duration::from_secs(60)));
    set.unwrap();
    assert_eq!(admitted(&limiter), 30);
}
