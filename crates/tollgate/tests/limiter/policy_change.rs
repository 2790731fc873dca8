//! Another policy for a limiter in use.

use tollgate::policy::model::{Consistency, GlobalServer, Regions};
use tollgate::policy::{CheckedPolicy, PolicyBuilder, RuleBuilder};
use tollgate::{Limiter, LimiterError, rule};

use crate::support::{Manual, any, clock, from, remaining};

fn policy(rules: impl IntoIterator<Item = RuleBuilder>) -> CheckedPolicy {
    rules.into_iter().fold(PolicyBuilder::default(), PolicyBuilder::rule).build().unwrap()
}

fn limiter(policy: &CheckedPolicy) -> Manual {
    Limiter::with_clock(policy, clock()).unwrap()
}

#[test]
fn counters_stay_with_the_name_of_their_rule() {
    let limiter = limiter(&policy([rule("a").limit("10/h"), rule("b").limit("10/h")]));
    (0..4).for_each(|_| assert!(limiter.check(&any()).is_allowed()));
    // In another order, one of them larger; a new rule is unused.
    let changed = policy([rule("c").limit("3/h"), rule("b").limit("20/h"), rule("a").limit("10/h")]);
    limiter.set_policy(&changed).unwrap();
    assert_eq!(remaining(&limiter), [3, 16, 6]);
}

#[test]
fn changed_limits_apply_at_once() {
    let limiter = limiter(&policy([rule("a").limit("10/h")]));
    (0..6).for_each(|_| assert!(limiter.check(&any()).is_allowed()));
    limiter.set_policy(&policy([rule("a").limit("5/h")])).unwrap();
    assert!(!limiter.check(&any()).is_allowed());
    // The lower limit holds 5 of the 6 that were used, and its refusal has written that down.
    limiter.set_policy(&policy([rule("a").limit("8/h")])).unwrap();
    assert_eq!((0..5).filter(|_| limiter.check(&any()).is_allowed()).count(), 3);
}

#[test]
fn clones_use_the_new_policy() {
    let limiter = limiter(&policy([rule("a").limit("1/h")]));
    let clone = limiter.clone();
    assert!(clone.check(&any()).is_allowed());
    limiter.set_policy(&policy([rule("a").limit("2/h")])).unwrap();
    assert!(clone.check(&any()).is_allowed());
    assert!(!clone.check(&any()).is_allowed());
    assert_eq!(clone.policy().rules().len(), 1);
}

/// Charges under the old policy are refunded to the counters that were charged.
#[test]
fn receipts_outlive_their_policy() {
    let limiter = limiter(&policy([rule("slots").concurrency(2), rule("a").limit("9/h")]));
    let permit = limiter.permit(&any()).unwrap();
    let receipt = limiter.permit(&any()).unwrap().into_receipt();
    limiter.set_policy(&policy([rule("a").limit("9/h"), rule("slots").concurrency(3)])).unwrap();
    assert_eq!(remaining(&limiter), [7, 1]);
    drop(permit);
    assert_eq!(remaining(&limiter), [7, 2]);
    limiter.refund(receipt);
    assert_eq!(remaining(&limiter), [8, 3]);
}

#[test]
fn blocks_outlive_their_policy() {
    let minute = std::time::Duration::from_secs(60);
    let graduated =
        |rate: &str| policy([rule("a").per("user").limit(rate).on_limit(0, minute, Some((1, 15 * minute)))]);
    let limiter = limiter(&graduated("1/h"));
    let alice = [("user", "alice")];
    let actions: Vec<_> = (0..3).map(|_| limiter.check(&from(&alice)).action().name()).collect();
    assert_eq!(actions, ["allow", "reject", "block"]);
    limiter.set_policy(&graduated("100/h")).unwrap();
    assert_eq!(limiter.check(&from(&alice)).action().name(), "block");
    assert!(limiter.check(&from(&[("user", "bob")])).is_allowed());
}

#[test]
fn policy_change_keeps_the_store() {
    let redis = || {
        let settings = tollgate::policy::model::RedisSettings::at(vec!["localhost:6379".to_owned()]);
        PolicyBuilder::default().rule(rule("a").limit("1/h")).with(|policy| {
            policy.store = tollgate::policy::model::StoreSettings::Redis(settings);
        })
    };
    let error = Limiter::new(&redis().build().unwrap()).unwrap_err();
    assert!(matches!(error, LimiterError::OtherStore));
    assert!(error.to_string().contains("with_store"), "{error}");
}

#[test]
fn regional_rules_need_the_region_of_the_instance() {
    let weights = [("eu".to_owned(), 1), ("us".to_owned(), 1)];
    let regions = Regions::new(weights.to_vec(), GlobalServer::at(vec!["global:6379".to_owned()]));
    let built = rule("a").limit("10/h").consistency(Consistency::Regional);
    let regional = PolicyBuilder::default().regions(regions).rule(built).build().unwrap();
    assert!(matches!(Limiter::with_clock(&regional, clock()), Err(LimiterError::NoRegion)));
    let limiter = limiter(&policy([rule("a").limit("10/h")]));
    assert!(matches!(limiter.set_policy(&regional), Err(LimiterError::NoRegion)));
    limiter.set_policy(&regional.in_region("eu").unwrap()).unwrap();
}
