//! How a key stood after a line, for answers that are given later without asking.

use smallvec::SmallVec;
use tollgate_core::{Decision, Verdict};
use tollgate_store::Limit;

use super::replay::{Act, KeyState, Replay, act_on, in_nanoseconds};
use crate::call::{SlotCharge, View};

/// A log of more than this is not kept.
const MOST_BYTES: usize = 512;

/// A key's state as its quota reads it, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    state: KeyState,
    /// The largest cost whose answer the state tells. Only the front of a long log travels.
    known_up_to: u64,
}

/// How each charge's key stood after `passed` requests of a line, whose keys looked like `views` before.
pub(crate) fn standings(
    charges: &[SlotCharge],
    now: u64,
    passed: u32,
    views: &[View],
) -> Option<SmallVec<[Standing; 4]>> {
    let mut line = Replay::new(charges, now, views).ok()?;
    for _ in 0..passed {
        line.request();
    }
    let standing = |at: usize| {
        let state = line.state(at);
        let known_up_to = known_up_to(&charges[at].target.limit, &views[at], &state);
        Standing { state, known_up_to }
    };
    Some((0..charges.len()).map(standing).collect())
}

fn known_up_to(limit: &Limit, view: &View, state: &KeyState) -> u64 {
    let (View::Log { used, front, debt, .. }, KeyState::Log(log)) = (view, state) else { return u64::MAX };
    // Of a log that owes, the front stands for sums that answer this charge at this moment, and nothing later.
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

impl Standing {
    /// The answer to a charge at a later time in the server's microseconds, in nanoseconds. `None` if the state does
    /// not tell. It holds if nothing was charged or given back since.
    pub(crate) fn look(&self, limit: &Limit, now: u64, cost: u64) -> Option<Decision> {
        let is_known = cost <= self.known_up_to || cost > limit.quota().amount();
        is_known.then(|| {
            let mut decision = self.decision(limit, now, cost);
            in_nanoseconds(&mut decision);
            decision
        })
    }

    /// For how many microseconds nothing at all can be charged, because not even the smallest cost passes; `None` if
    /// something may pass at any time.
    pub(crate) fn is_full_for(&self, limit: &Limit, now: u64) -> Option<u64> {
        if self.known_up_to == 0 {
            return None;
        }
        match self.decision(limit, now, 1).verdict {
            Verdict::Refused { retry_after } => retry_after,
            Verdict::Allowed { .. } | Verdict::NoRoom | Verdict::Impossible => None,
        }
    }

    /// Whether it would take too much to be kept for many keys: the front of a log that a large cost asked for.
    pub(crate) fn is_large(&self) -> bool {
        matches!(&self.state, KeyState::Log(log) if log.heap_bytes() > MOST_BYTES)
    }

    fn decision(&self, limit: &Limit, now: u64, cost: u64) -> Decision {
        act_on(limit.compiled(), &mut self.state.clone(), now, cost, Act::Look).0
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;
    use tollgate_core::Quota;
    use tollgate_store::Mode;

    use super::*;
    use crate::call::Target;
    use crate::store::limit_of;

    fn charge(quota: Quota) -> SlotCharge {
        let limit = limit_of(quota).unwrap();
        SlotCharge { target: Target { key: b"bob".as_slice().into(), limit }, cost: 1, mode: Mode::Enforce }
    }

    #[test]
    fn standing_after_a_line_is_that_of_those_who_passed() {
        let charge = charge(Quota::fixed_window("3/s".parse().unwrap()).unwrap());
        let limit = charge.target.limit.clone();
        let now = 5_000_000;
        let views = [View::Window(tollgate_core::WindowState::default())];
        let after_two = standings(std::slice::from_ref(&charge), now, 2, &views).unwrap();
        assert_eq!(after_two[0].is_full_for(&limit, now), None);
        assert_eq!(after_two[0].look(&limit, now, 0).unwrap().remaining, 1);
        let after_three = standings(&[charge], now, 3, &views).unwrap();
        assert_eq!(after_three[0].is_full_for(&limit, now), Some(1_000_000));
        assert_eq!(after_three[0].look(&limit, now + 250_000, 2).unwrap().retry_after(), Some(750_000_000));
    }

    #[test]
    fn log_of_which_only_the_front_is_known_does_not_tell_of_larger_costs() {
        let charge = charge(Quota::sliding_window_log("5/s".parse().unwrap()).unwrap());
        let limit = charge.target.limit.clone();
        let view = |front| View::Log { used: 5, newest: 4_900_000, debt: 0, front };
        let known = |front| standings(std::slice::from_ref(&charge), 5_000_000, 0, &[view(front)]).unwrap().remove(0);
        let short = known(smallvec![(4_100_000, 1), (4_200_000, 1)]);
        assert_eq!(short.look(&limit, 5_000_000, 2).unwrap().retry_after(), Some(200_000_000));
        assert!(short.look(&limit, 5_000_000, 3).is_none());
        assert_eq!(short.look(&limit, 5_000_000, 6).unwrap().verdict, Verdict::Impossible);
        let whole = known(smallvec![(4_100_000, 1), (4_200_000, 3), (4_900_000, 1)]);
        assert_eq!(whole.look(&limit, 5_000_000, 5).unwrap().retry_after(), Some(900_000_000));
    }

    #[test]
    fn log_that_owes_is_not_kept() {
        let charge = charge(Quota::sliding_window_log("5/s".parse().unwrap()).unwrap());
        let views = [View::Log { used: 5, newest: 4_900_000, debt: 2, front: smallvec![(4_900_000, 5)] }];
        let standing = standings(std::slice::from_ref(&charge), 5_000_000, 0, &views).unwrap().remove(0);
        assert_eq!(standing.is_full_for(&charge.target.limit, 5_000_000), None);
    }

    #[test]
    fn permits_may_come_back_at_any_time() {
        let second = std::time::Duration::from_secs(1);
        let charge = charge(Quota::concurrency(1, Some(second)).unwrap());
        let views = [View::Leases { used: 1, until: 5_500_000, last_id: 7 }];
        let standing = standings(std::slice::from_ref(&charge), 5_000_000, 0, &views).unwrap().remove(0);
        assert_eq!(standing.is_full_for(&charge.target.limit, 5_000_000), None);
    }
}
