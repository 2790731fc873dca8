//! What a verdict says of the limits of a rule that is blocked.

use std::time::Duration;

use tollgate::{Action, AskedTogether, ChargeVerdict, Limiter, Part, Request, RuleBuilder, rule};

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
fn all_limits_of_the_rule_say_so_and_no_others() {
    let limited = blocking(rule("limited").per("user").limit("3/s burst 3").limit("9/h"));
    let clock = clock();
    let limiter = built(Limiter::builder().rule(limited).rule(rule("other").per("user").limit("1000/h")), &clock);
    let ann = [("user", "ann")];
    begin(&limiter, &from(&ann));
    clock.advance(100 * S_NS);
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
    // Nobody else is.
    assert!(limiter.check(&from(&[("user", "ben")])).is_allowed());
}

#[test]
fn a_limit_that_lasts_longer_than_the_block_is_told_as_it_is() {
    let limiter = built(Limiter::builder().rule(blocking(rule("limited").per("user").limit("1/day"))), &clock());
    let ann = [("user", "ann")];
    let verdict = begin(&limiter, &from(&ann));
    let day_ns = 86_400 * S_NS;
    let decision = verdict.deciding().unwrap().decision;
    assert_eq!((decision.retry_after(), decision.reset_after, decision.remaining), (Some(day_ns), day_ns, 0));
    assert_eq!(verdict.retry_after(), Some(Duration::from_nanos(day_ns)));
}

#[test]
fn what_can_never_pass_can_not_when_the_block_ends() {
    let limiter = built(Limiter::builder().rule(blocking(rule("limited").per("user").limit("2/min"))), &clock());
    let ann = [("user", "ann")];
    let verdict = begin(&limiter, &Request { cost: 3, ..from(&ann) });
    assert_eq!((verdict.action(), verdict.retry_after()), (Action::Block, None));
    assert_eq!(verdict.deciding().unwrap().decision.verdict, ChargeVerdict::Impossible);
    assert_eq!(limiter.check(&from(&ann)).retry_after(), Some(BLOCK), "this one will pass");
}

#[test]
fn of_several_blocks_each_is_told_and_the_longest_decides() {
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
fn who_asks_together_is_told_the_same() {
    let clock = clock();
    let limiter = built(Limiter::builder().rule(blocking(rule("limited").per("user").limit("2/min"))), &clock);
    let (ann, ben) = ([("user", "ann")], [("user", "ben")]);
    begin(&limiter, &from(&ann));
    clock.advance(100 * S_NS);
    let asked = [&ann, &ben].map(|who| AskedTogether { request: from(who), part: Part::Charge });
    let together = at_once(limiter.decide_together(&asked));
    let left = Some(Duration::from_secs(800));
    assert_eq!((together.overall.action(), together.overall.retry_after()), (Action::Block, left));
    let [ann, ben] = together.each.as_slice() else { panic!("{together:?}") };
    assert_eq!((ann.action(), ann.retry_after()), (Action::Block, left));
    assert_eq!(ann.deciding().unwrap().decision.remaining, 0);
    assert_eq!((ben.action(), ben.deciding().unwrap().decision.remaining), (Action::Allow, 2));
}
