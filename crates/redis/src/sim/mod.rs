//! The store in a world of virtual time, where everything goes wrong by seed.
//!
//! A seed that fails is printed; `TOLLGATE_SEED=<seed>` runs that one alone, and
//! `TOLLGATE_SEEDS=<count>` runs more of them.

#![allow(clippy::unwrap_used)]

mod injected_fault;
mod like_memory;
mod policy_changes;
mod replayed;
mod round_trip;
mod scenario;
pub(crate) mod shard;
mod world;

pub(crate) use self::injected_fault::InjectedFault;
use self::scenario::run;
use self::scenario::seen::Coverage;

/// How many seeds an ordinary run plays.
const SEEDS: u64 = 3_000;

#[test]
fn whatever_happens_no_promise_is_broken() {
    if let Some(seed) = std::env::var("TOLLGATE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let played = run(seed, None);
        assert!(played.is_ok(), "seed {seed}: {played:?}");
        return;
    }
    let mut all = Coverage::default();
    let seeds = std::env::var("TOLLGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    for seed in 0..seeds {
        match run(seed, None) {
            Ok(coverage) => all.add(&coverage),
            Err(violation) => panic!("TOLLGATE_SEED={seed}: {violation}"),
        }
    }
    // A world in which nothing happens would prove nothing.
    assert!(all.is_complete(), "{all:?}");
}

#[test]
fn a_seed_plays_the_same_every_time() {
    for seed in 0..20 {
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
}

/// A fault that is injected must be found within the seeds of an ordinary run.
fn is_found(fault: InjectedFault) {
    let found = (0..SEEDS).any(|seed| run(seed, Some(fault)).is_err());
    assert!(found, "{fault:?} was not found");
}

macro_rules! faults {
    ($($name:ident: $fault:ident),* $(,)?) => {
        $(#[test] fn $name() { is_found(InjectedFault::$fault); })*
    };
}

faults! {
    what_is_sent_again_is_found: RetryUnknown,
    what_another_slot_refused_and_is_kept_is_found: ForgetRefund,
    what_came_too_late_and_is_kept_is_found: KeepLateCharge,
    a_refusal_remembered_too_long_is_found: RememberTooLong,
    cached_answer_for_another_cost_is_found: AnswerForAnotherCost,
    cached_answer_where_violations_are_counted_is_found: RememberWhereCounted,
    a_refusal_remembered_across_a_refund_is_found: RememberAcrossRefund,
    a_debt_paid_again_in_doubt_is_found: DoubleDebt,
    a_debt_that_stays_is_found: KeepDebt,
    answers_out_of_order_are_found: SwapJoinedAnswers,
    a_refund_sent_again_in_doubt_is_found: ResendUnknownRefund,
    a_refund_not_sent_again_is_found: NeverResendRefund,
    a_whole_limit_in_fallback_is_found: WholeLimitInFallback,
    a_check_without_a_deadline_is_found: NoDeadline,
    a_breaker_that_stays_open_is_found: NeverProbe,
    a_refusal_outvoted_is_found: OneSlotIsEnough,
    a_lost_lease_renewed_is_found: ForgetLostLease,
    an_expired_call_carried_out_all_the_same_is_found: RunExpired,
}
