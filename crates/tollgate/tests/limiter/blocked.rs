//! The verdict about the limits of a rule that blocks.

use std::time::Duration;

use tollgate::limiter::{JointCharge, JointRequest};
use tollgate::policy::RuleBuilder;
use tollgate::quota::ChargeVerdict;
use tollgate::{Action, Limiter, Request, rule};

use crate::support::{Manual, S_NS, at_once, built, clock, from};

const BLOCK: Duration = Duration::from_secs(900);

/// Blocks with the second violation within ten minutes.
fn blocking(rule: RuleBuilder) -> RuleBuilder {
    rule.on_limit(0, Duration::from_secs(600), Some((1, BLOCK)))
}

/// The verdict on the request that begins the block.
fn begin(limiter: &Manual, request: &Request<'_>) -> tollgate::Verdict {
    let verdicts = (0..50).map(|_| limiter.check(request));
    verdicts.into_iter().find(|verdict| verdict.action() == Action::Block).unwrap()
}

#[test]
fn block_shows_in_all_limits_of_its_rule_only() {
    let limited = blocking(rule("limited").per("user").limit("3/s burst 3").limit("9/h"));
    let clock = clock();
    let limiter = built(Limiter::builder().rule(limited).rule(rule("other").per("user").limit("1000/h")), &clock);
    let ann = [("user", "ann")];
    begin(&limiter, &from(&ann));
    clock.advance(Duration::from_secs(100));
    let verdict = limiter.check(&from(&ann));
    let told: Vec<_> = verdict
        .states()
        .iter()
        .map(|state| (state.decision.remaining > 0, state.decision.retry_after().map(|ns| ns / S_NS)))
        .collect();
    assert_eq!(told, [(false, Some(800)), (false, Some(800)), (true, None)]);
    let deciding = verdict.deciding().unwrap();
    assert_eq!((verdict.rule(), verdict.retry_after()), (Some("limited"), Some(Duration::from_secs(800))));
    assert_eq!(deciding.decision.next_after, 800 * S_NS);
    assert!(verdict.states().iter().take(2).all(|state| state.decision.reset_after >= 800 * S_NS));
    // Other keys are not blocked.
    assert!(limiter.check(&from(&[("user", "ben")])).is_allowed());
}

#[test]
fn limit_longer_than_the_block_is_reported() {
    let limiter = built(Limiter::builder().rule(blocking(rule("limited").per("user").limit("1/day"))), &clock());
    let ann = [("user", "ann")];
    let verdict = begin(&limiter, &from(&ann));
    let day_ns = 86_400 * S_NS;
    let decision = verdict.deciding().unwrap().decision;
    assert_eq!((decision.retry_after(), decision.reset_after, decision.remaining), (Some(day_ns), day_ns, 0));
    assert_eq!(verdict.retry_after(), Some(Duration::from_nanos(day_ns)));
}

#[test]
fn impossible_cost_stays_impossible_after_the_block() {
    let limiter = built(Limiter::builder().rule(blocking(rule("limited").per("user").limit("2/min"))), &clock());
    let ann = [("user", "ann")];
    let verdict = begin(&limiter, &Request { cost: 3, ..from(&ann) });
    assert_eq!((verdict.action(), verdict.retry_after()), (Action::Block, None));
    assert_eq!(verdict.deciding().unwrap().decision.verdict, ChargeVerdict::Impossible);
    assert_eq!(limiter.check(&from(&ann)).retry_after(), Some(BLOCK), "this one will pass");
}

#[test]
fn longest_of_several_blocks_decides() {
    let short = rule("short").per("user").limit("1/min").on_limit(0, BLOCK, Some((1, Duration::from_secs(60))));
    let limiter =
        built(Limiter::builder().rule(short).rule(blocking(rule("long").per("place").limit("1/min"))), &clock());
    begin(&limiter, &from(&[("user", "ann")]));
    begin(&limiter, &from(&[("place", "home")]));
    let verdict = limiter.check(&from(&[("user", "ann"), ("place", "home")]));
    let waits: Vec<_> = verdict.states().iter().map(|state| state.decision.retry_after()).collect();
    assert_eq!(waits, [Some(60 * S_NS), Some(900 * S_NS)]);
    assert_eq!((verdict.action(), verdict.rule()), (Action::Block, Some("long")));
}

#[test]
fn joint_check_reports_the_block() {
    let clock = clock();
    let limiter = built(Limiter::builder().rule(blocking(rule("limited").per("user").limit("2/min"))), &clock);
    let (ann, ben) = ([("user", "ann")], [("user", "ben")]);
    begin(&limiter, &from(&ann));
    clock.advance(Duration::from_secs(100));
    let asked = [&ann, &ben].map(|who| JointRequest { request: from(who), charge: JointCharge::Rules });
    let together = at_once(limiter.check_all(&asked));
    let left = Some(Duration::from_secs(800));
    assert_eq!((together.overall.action(), together.overall.retry_after()), (Action::Block, left));
    let [ann, ben] = together.each.as_slice() else { panic!("{together:?}") };
    assert_eq!((ann.action(), ann.retry_after()), (Action::Block, left));
    assert_eq!(ann.deciding().unwrap().decision.remaining, 0);
    assert_eq!((ben.action(), ben.deciding().unwrap().decision.remaining), (Action::Allow, 2));
}
