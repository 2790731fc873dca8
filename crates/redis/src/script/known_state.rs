//! The state of a key after an operation, for later decisions without a call.

use smallvec::SmallVec;
use tollgate_core::{ChargeVerdict, Decision};
use tollgate_store::Limit;

use super::replay::{KeyState, Replay, ReplayMode, apply_to, to_nanoseconds};
use crate::call::{ReportedState, SlotCharge};

/// The maximum size of a log that is cached.
const MAX_BYTES: usize = 512;

/// The state of a key as read by its quota, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct KnownState {
    state: KeyState,
    /// The largest cost whose decision follows from the state. Only the front of a long log is sent.
    known_up_to: u64,
}

/// Returns the state of each charge's key after `passed` requests; `states_before` are the states before.
pub(crate) fn known_states(
    charges: &[SlotCharge],
    now: u64,
    passed: u32,
    states_before: &[ReportedState],
) -> Option<SmallVec<[KnownState; 4]>> {
    let mut replay = Replay::new(charges, now, states_before).ok()?;
    for _ in 0..passed {
        replay.request();
    }
    let known_state = |index: usize| {
        let state = replay.state(index);
        let known_up_to = known_up_to(&charges[index].target.limit, &states_before[index], &state);
        KnownState { state, known_up_to }
    };
    Some((0..charges.len()).map(known_state).collect())
}

fn known_up_to(limit: &Limit, reported: &ReportedState, state: &KeyState) -> u64 {
    let (ReportedState::Log { used, front, debt, .. }, KeyState::Log(log)) = (reported, state) else { return u64::MAX };
    // The front of a log with a debt consists of sums for this charge at this time, and is not valid later.
    if *debt > 0 {
        return 0;
    }
    let in_front: u64 = front.iter().map(|(_, cost)| cost).sum();
    if in_front >= *used {
        return u64::MAX;
    }
    let used_now: u64 = log.entries().map(|(_, cost)| cost).sum();
    (limit.quota().amount() + in_front).saturating_sub(used_now)
}

impl KnownState {
    /// Returns the state of a key as reported by the server.
    pub(crate) fn of(limit: &Limit, reported: &ReportedState) -> KnownState {
        let state = KeyState::of(reported);
        KnownState { known_up_to: known_up_to(limit, reported, &state), state }
    }

    /// Returns the decision for a charge at a later time (`now` in the server's microseconds, the decision in
    /// nanoseconds); `None` if it does not follow from the state. It is correct if nothing was charged or refunded
    /// since.
    pub(crate) fn peek(&self, limit: &Limit, now: u64, cost: u64) -> Option<Decision> {
        let is_known = cost <= self.known_up_to || cost > limit.quota().amount();
        is_known.then(|| {
            let mut decision = self.decision(limit, now, cost);
            to_nanoseconds(&mut decision);
            decision
        })
    }

    /// Returns for how many microseconds the key cannot be charged at all, because not even the smallest cost passes;
    /// `None` if a charge may pass at any time.
    pub(crate) fn exhausted_for(&self, limit: &Limit, now: u64) -> Option<u64> {
        if self.known_up_to == 0 {
            return None;
        }
        match self.decision(limit, now, 1).verdict {
            ChargeVerdict::Refused { retry_after } => retry_after,
            ChargeVerdict::Allowed { .. } | ChargeVerdict::Unavailable | ChargeVerdict::Impossible => None,
        }
    }

    /// Returns whether the state is too large to be cached for many keys: the front of a log that was sent for a large
    /// cost.
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.state, KeyState::Log(log) if log.heap_bytes() > MAX_BYTES)
    }

    fn decision(&self, limit: &Limit, now: u64, cost: u64) -> Decision {
        apply_to(limit.compiled(), &mut self.state.clone(), now, cost, ReplayMode::Peek).0
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;
    use tollgate_core::Quota;
    use tollgate_store::ChargeMode;

    use super::*;
    use crate::call::Target;
    use crate::store::limit_of;

    fn charge(quota: Quota) -> SlotCharge {
        let limit = limit_of(quota).unwrap();
        SlotCharge { target: Target { key: b"bob".as_slice().into(), limit }, cost: 1, mode: ChargeMode::Enforce }
    }

    #[test]
    fn known_state_includes_the_requests_that_passed() {
        let charge = charge(Quota::fixed_window("3/s".parse().unwrap()).unwrap());
        let limit = charge.target.limit.clone();
        let now = 5_000_000;
        let states_before = [ReportedState::Window(tollgate_core::WindowState::default())];
        let after_two = known_states(std::slice::from_ref(&charge), now, 2, &states_before).unwrap();
        assert_eq!(after_two[0].exhausted_for(&limit, now), None);
        assert_eq!(after_two[0].peek(&limit, now, 0).unwrap().remaining, 1);
        let after_three = known_states(&[charge], now, 3, &states_before).unwrap();
        assert_eq!(after_three[0].exhausted_for(&limit, now), Some(1_000_000));
        assert_eq!(after_three[0].peek(&limit, now + 250_000, 2).unwrap().retry_after(), Some(750_000_000));
    }

    #[test]
    fn front_of_a_log_does_not_decide_larger_costs() {
        let charge = charge(Quota::sliding_window_log("5/s".parse().unwrap()).unwrap());
        let limit = charge.target.limit.clone();
        let reported = |front| ReportedState::Log { used: 5, newest: 4_900_000, debt: 0, front };
        let known =
            |front| known_states(std::slice::from_ref(&charge), 5_000_000, 0, &[reported(front)]).unwrap().remove(0);
        let short = known(smallvec![(4_100_000, 1), (4_200_000, 1)]);
        assert_eq!(short.peek(&limit, 5_000_000, 2).unwrap().retry_after(), Some(200_000_000));
        assert!(short.peek(&limit, 5_000_000, 3).is_none());
        assert_eq!(short.peek(&limit, 5_000_000, 6).unwrap().verdict, ChargeVerdict::Impossible);
        let whole = known(smallvec![(4_100_000, 1), (4_200_000, 3), (4_900_000, 1)]);
        assert_eq!(whole.peek(&limit, 5_000_000, 5).unwrap().retry_after(), Some(900_000_000));
    }

    #[test]
    fn log_with_a_debt_is_not_full_for_a_known_time() {
        let charge = charge(Quota::sliding_window_log("5/s".parse().unwrap()).unwrap());
        let states_before =
            [ReportedState::Log { used: 5, newest: 4_900_000, debt: 2, front: smallvec![(4_900_000, 5)] }];
        let known_state = known_states(std::slice::from_ref(&charge), 5_000_000, 0, &states_before).unwrap().remove(0);
        assert_eq!(known_state.exhausted_for(&charge.target.limit, 5_000_000), None);
    }

    #[test]
    fn permits_may_be_released_at_any_time() {
        let second = std::time::Duration::from_secs(1);
        let charge = charge(Quota::concurrency(1, Some(second)).unwrap());
        let states_before = [ReportedState::Leases { used: 1, until: 5_500_000, last_id: 7 }];
        let known_state = known_states(std::slice::from_ref(&charge), 5_000_000, 0, &states_before).unwrap().remove(0);
        assert_eq!(known_state.exhausted_for(&charge.target.limit, 5_000_000), None);
    }
}
