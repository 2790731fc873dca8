//! How a limit becomes available again. The fields do not say whether it is a bucket or a window; their times do.

use std::time::Duration;

use super::server_hint::LimitHint;

const S_NS: u64 = 1_000_000_000;

/// How a limit becomes available again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitKind {
    /// One unit after the other. `unit_ns` is the time of one.
    Bucket {
        quota: u64,
        unit_ns: u64,
    },
    /// All of it at once, or at an unknown pace.
    Window {
        ends_ns: u64,
    },
    Unknown,
}

/// The last known state of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastState {
    pub(super) limit: LimitHint,
    /// When the request left whose response stated it.
    pub(super) at_ns: u64,
    /// The latest time at which it resets, if it is a window.
    window_ends_ns: Option<u64>,
    /// Whether its last reset made most of it available at once, which a sliding window does not.
    resets_at_once: bool,
}

impl LimitKind {
    /// Returns the kind of a limit, by its state at a time and by its last known state.
    pub(super) fn of(limit: &LimitHint, last: Option<LastState>, at_ns: u64) -> LimitKind {
        let reset_ns = limit.reset.map(nanos);
        let (Some(quota), Some(window_ns)) = (limit.quota, limit.window.map(nanos)) else {
            let ends_ns = |reset_ns| window_end(last, at_ns, reset_ns, None);
            return reset_ns.map_or(LimitKind::Unknown, |reset_ns| LimitKind::Window { ends_ns: ends_ns(reset_ns) });
        };
        let unit_ns = (window_ns / quota.max(1)).max(1);
        // Times are whole seconds, rounded up.
        let is_late = reset_ns.is_some_and(|reset_ns| reset_ns > unit_ns + 2 * S_NS);
        let was_window = last.is_some_and(|last| last.window_ends_ns.is_some());
        let has_reset = last.is_some_and(|last| last.has_reset(limit, unit_ns, at_ns));
        if !is_late && !was_window && !has_reset {
            return LimitKind::Bucket { quota, unit_ns };
        }
        let stated_ns = window_end(last, at_ns, reset_ns.unwrap_or(window_ns), Some(window_ns));
        let from_reset_ns = at_ns.saturating_add(window_ns);
        LimitKind::Window { ends_ns: if has_reset { stated_ns.min(from_reset_ns) } else { stated_ns } }
    }
}

impl LastState {
    /// Returns the state that follows the last known one.
    pub(super) fn next(limit: &LimitHint, last: Option<LastState>, kind: LimitKind, at_ns: u64) -> LastState {
        let resets_at_once = match last {
            Some(last) if limit.remaining > last.limit.remaining => {
                limit.quota.is_some_and(|quota| limit.remaining >= quota / 2)
            }
            Some(last) => last.resets_at_once,
            None => false,
        };
        let window_ends_ns = match kind {
            LimitKind::Window { ends_ns } => Some(ends_ns),
            LimitKind::Bucket { .. } | LimitKind::Unknown => None,
        };
        LastState { limit: *limit, at_ns, window_ends_ns, resets_at_once }
    }

    /// Whether more has become available than a bucket would have refilled.
    fn has_reset(&self, limit: &LimitHint, unit_ns: u64, at_ns: u64) -> bool {
        if limit.remaining <= self.limit.remaining {
            return false;
        }
        let refilled = at_ns.saturating_sub(self.at_ns) / unit_ns;
        // An eighth, because requests may arrive in another order than they left.
        let tolerance = limit.quota.unwrap_or(0) / 8 + 2;
        limit.remaining > self.limit.remaining.saturating_add(refilled).saturating_add(tolerance)
    }
}

/// Returns the latest time at which a window ends. Times are rounded up to seconds, so of several statements about one
/// window the earliest is the most precise. A sliding window states another time for each unit.
fn window_end(last: Option<LastState>, at_ns: u64, reset_ns: u64, window_ns: Option<u64>) -> u64 {
    let stated_ns = at_ns.saturating_add(reset_ns);
    let known = last.filter(|last| last.resets_at_once).and_then(|last| last.window_ends_ns);
    match (known, window_ns) {
        (Some(known_ns), _) if known_ns > at_ns && stated_ns < known_ns.saturating_add(S_NS) => known_ns.min(stated_ns),
        (Some(known_ns), Some(window_ns)) if known_ns <= at_ns && known_ns.saturating_add(window_ns) > at_ns => {
            stated_ns.min(known_ns.saturating_add(window_ns))
        }
        _ => stated_ns,
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(remaining: u64, reset_s: u64) -> LimitHint {
        let (quota, window) = (Some(100), Some(Duration::from_secs(10)));
        LimitHint { name: 1, remaining, reset: Some(Duration::from_secs(reset_s)), quota, window }
    }

    /// The kinds of states at times in milliseconds.
    fn kinds(states: &[(u64, LimitHint)]) -> Vec<LimitKind> {
        let mut last = None;
        let next = |(at_ms, limit): &(u64, LimitHint)| {
            let kind = LimitKind::of(limit, last, at_ms * 1_000_000);
            last = Some(LastState::next(limit, last, kind, at_ms * 1_000_000));
            kind
        };
        states.iter().map(next).collect()
    }

    const BUCKET: LimitKind = LimitKind::Bucket { quota: 100, unit_ns: 100_000_000 };

    fn window(ends_ms: u64) -> LimitKind {
        LimitKind::Window { ends_ns: ends_ms * 1_000_000 }
    }

    #[test]
    fn limit_whose_next_unit_is_near_is_a_bucket() {
        assert_eq!(kinds(&[(0, state(50, 1)), (1_000, state(60, 1)), (2_000, state(0, 1))]), [BUCKET; 3]);
    }

    #[test]
    fn limit_that_resets_later_than_a_unit_is_a_window_until_its_end() {
        let states = [(0, state(50, 9)), (500, state(40, 9)), (8_900, state(30, 1))];
        assert_eq!(kinds(&states), [window(9_000), window(9_500), window(9_900)]);
    }

    #[test]
    fn end_of_a_window_becomes_more_precise_after_its_first_reset() {
        let states = [(0, state(50, 9)), (9_200, state(99, 10)), (9_900, state(90, 10)), (10_100, state(80, 9))];
        assert_eq!(kinds(&states)[1..], [window(19_200), window(19_200), window(19_100)]);
    }

    #[test]
    fn limit_that_returns_at_once_is_a_window() {
        let states = [(0, state(90, 1)), (500, state(20, 1)), (1_000, state(95, 1))];
        assert_eq!(kinds(&states), [BUCKET, BUCKET, window(2_000)]);
    }

    #[test]
    fn limit_without_policy_is_a_window_and_without_time_unknown() {
        let (older, silent) =
            (LimitHint { quota: None, window: None, ..state(5, 7) }, LimitHint { reset: None, ..state(5, 7) });
        assert_eq!(kinds(&[(0, older)]), [window(7_000)]);
        assert_eq!(kinds(&[(0, LimitHint { quota: None, ..silent })]), [LimitKind::Unknown]);
    }
}
