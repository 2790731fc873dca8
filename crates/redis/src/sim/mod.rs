//! Deterministic simulation of the store: virtual time, with failures that follow from a seed.
//!
//! A seed that fails is printed; `TOLLGATE_SEED=<seed>` runs that one alone, and
//! `TOLLGATE_SEEDS=<count>` runs more of them.

#![allow(clippy::unwrap_used)]

mod injected_fault;
mod leases;
mod memory_parity;
mod outstanding;
mod policy_changes;
mod region_links;
mod regions;
mod replay_parity;
mod round_trip;
mod scenario;
pub(crate) mod shard;
mod world;

pub(crate) use self::injected_fault::InjectedFault;
use self::scenario::observations::Coverage;
use self::scenario::run;

/// The number of seeds of an ordinary run.
const SEEDS: u64 = 3_000;

#[test]
fn no_invariant_is_violated_under_random_failures() {
    if let Some(seed) = std::env::var("TOLLGATE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let result = run(seed, None);
        assert!(result.is_ok(), "seed {seed}: {result:?}");
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
    // A run in which some cases never occur would prove nothing.
    assert!(all.is_complete(), "{all:?}");
}

#[test]
fn runs_of_one_seed_are_identical() {
    for seed in 0..20 {
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
}

/// Asserts that an injected fault is detected within the seeds of an ordinary run.
fn assert_detected(fault: InjectedFault) {
    let found = (0..SEEDS).any(|seed| run(seed, Some(fault)).is_err());
    assert!(found, "{fault:?} was not detected");
}

macro_rules! faults {
    ($($name:ident: $fault:ident),* $(,)?) => {
        $(#[test] fn $name() { assert_detected(InjectedFault::$fault); })*
    };
}

faults! {
    resent_decision_is_detected: RetryUnknown,
    missing_refund_after_a_refusal_is_detected: ForgetRefund,
    missing_refund_of_a_late_charge_is_detected: KeepLateCharge,
    refusal_cached_too_long_is_detected: RememberTooLong,
    cached_decision_for_another_cost_is_detected: AnswerForAnotherCost,
    cached_refusal_where_violations_are_counted_is_detected: RememberWhereCounted,
    refusal_cached_across_a_refund_is_detected: RememberAcrossRefund,
    debt_paid_twice_is_detected: DoubleDebt,
    debt_kept_after_payment_is_detected: KeepDebt,
    answers_out_of_order_are_detected: SwapJoinedAnswers,
    refund_resent_with_an_unknown_outcome_is_detected: ResendUnknownRefund,
    refund_never_resent_is_detected: NeverResendRefund,
    whole_limit_in_fallback_is_detected: WholeLimitInFallback,
    check_without_a_deadline_is_detected: NoDeadline,
    breaker_that_stays_open_is_detected: NeverProbe,
    ignored_refusal_of_one_slot_is_detected: OneSlotIsEnough,
    renewal_of_a_lost_lease_is_detected: ForgetLostLease,
    execution_of_an_expired_call_is_detected: RunExpired,
}
