//! How often lines of each kind are written.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// How many lines about violations are written in a second, whatever happens.
const LINES_A_SECOND: u64 = 50;

/// How many of them may be of one kind, where they do not tell of somebody new.
const OF_KIND_A_SECOND: u64 = 10;

/// Which line it would be. No kind can take the place of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) enum LineKind {
    /// Of a client that its rule has not refused before in this window.
    First,
    /// Of one that it has.
    Repeated,
    /// Of a rule that is only watched.
    Watched,
    /// Of a request that passes with a warning or a delay, or that no rule refuses.
    Other,
}

/// What was written in a second: 8 bits for all lines, and 8 for each kind that has a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) struct Spent(u64);

/// The lines of a second. In a flood all that it costs is to read it.
#[derive(Debug, Default)]
pub(in crate::observe) struct LineBudget {
    /// The second in the upper half, and what was spent in it.
    spent: AtomicU64,
}

impl LineKind {
    /// Where its share stands, if it has one.
    const fn shift(self) -> Option<u32> {
        match self {
            LineKind::First => None,
            LineKind::Repeated => Some(8),
            LineKind::Watched => Some(16),
            LineKind::Other => Some(24),
        }
    }
}

impl Spent {
    /// Whether there is no line of any kind left.
    #[inline]
    pub(in crate::observe) fn is_all(self) -> bool {
        self.0 & 0xff >= LINES_A_SECOND
    }

    /// Whether there is still a line of that kind.
    #[inline]
    pub(in crate::observe) fn allows(self, kind: LineKind) -> bool {
        let of_kind = kind.shift().map_or(0, |shift| (self.0 >> shift) & 0xff);
        !self.is_all() && of_kind < OF_KIND_A_SECOND
    }

    fn and(self, kind: LineKind) -> Spent {
        Spent(self.0 + 1 + kind.shift().map_or(0, |shift| 1 << shift))
    }
}

impl LineBudget {
    #[inline]
    pub(in crate::observe) fn spent(&self, now_s: u64) -> Spent {
        spent_in(now_s, self.spent.load(Relaxed))
    }

    /// Takes a line; `false` if others were faster.
    pub(in crate::observe) fn take(&self, now_s: u64, kind: LineKind) -> bool {
        let taken = self.spent.try_update(Relaxed, Relaxed, |all| {
            let spent = spent_in(now_s, all);
            let second = now_s.max(all >> 32);
            spent.allows(kind).then(|| (second << 32) | spent.and(kind).0)
        });
        taken.is_ok()
    }
}

/// What was spent in that second. Nothing is given twice because a clock goes back.
fn spent_in(now_s: u64, all: u64) -> Spent {
    Spent(if now_s > all >> 32 { 0 } else { all & 0xffff_ffff })
}

/// How many are written in a second.
const A_SECOND: u64 = 5;

/// Limits log lines of one kind to a few a second: a server that comes and goes, or a
/// caller that tries out tokens, must not fill a disk.
#[derive(Debug, Default)]
pub(in crate::observe) struct LogThrottle {
    /// In which second, and how many.
    spent: Mutex<(u64, u64)>,
}

impl LogThrottle {
    pub(in crate::observe) fn take(&self, now_s: u64) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.0 != now_s {
            *spent = (now_s, 0);
        }
        spent.1 += 1;
        spent.1 <= A_SECOND
    }
}

/// How far apart two such notices are. A store that is full stays so for long.
const APART_S: u64 = 60;

/// Says now and then that requests are refused because they cannot be counted, and how many.
#[derive(Debug, Default)]
pub(in crate::observe) struct UncountedNotices {
    spent: Mutex<SinceLast>,
}

#[derive(Debug, Default)]
struct SinceLast {
    /// From when on there may be another.
    next_s: u64,
    since_last: u64,
}

impl UncountedNotices {
    /// Counts one more, and returns what to say of all since the last notice, if it is time for another.
    pub(in crate::observe) fn take(&self, now_s: u64) -> Option<String> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.since_last += 1;
        if now_s < spent.next_s {
            return None;
        }
        let so_many = std::mem::take(&mut spent.since_last);
        spent.next_s = now_s + APART_S;
        let refused = if so_many == 1 { "1 request was".to_owned() } else { format!("{so_many} requests were") };
        Some(format!(
            "{refused} refused because the store could not count: it is full (`when_full: refuse`), \
             or does not answer (`on_failure: closed`)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(budget: &LineBudget, now_s: u64, kind: LineKind, tries: u64) -> u64 {
        (0..tries).filter(|_| budget.take(now_s, kind)).count() as u64
    }

    #[test]
    fn a_second_has_so_many_lines() {
        let budget = LineBudget::default();
        assert_eq!(taken(&budget, 1_700_000_000, LineKind::First, 1_000), LINES_A_SECOND);
        assert!(!budget.spent(1_700_000_000).allows(LineKind::First));
        assert!(budget.spent(1_700_000_001).allows(LineKind::First));
        // A clock that goes back gives nothing twice.
        assert_eq!(taken(&budget, 1_699_999_999, LineKind::First, 1_000), 0);
    }

    #[test]
    fn no_kind_takes_the_place_of_all_others() {
        let budget = LineBudget::default();
        for kind in [LineKind::Repeated, LineKind::Watched, LineKind::Other] {
            assert_eq!(taken(&budget, 5, kind, 1_000), OF_KIND_A_SECOND);
        }
        assert_eq!(taken(&budget, 5, LineKind::First, 1_000), LINES_A_SECOND - 3 * OF_KIND_A_SECOND);
    }

    #[test]
    fn threads_share_it() {
        let budget = LineBudget::default();
        let all = std::thread::scope(|scope| {
            let taken = || taken(&budget, 9, LineKind::First, 1_000);
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(taken)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        assert_eq!(all, LINES_A_SECOND);
    }

    #[test]
    fn a_second_has_so_many_lines_of_a_throttled_kind() {
        let lines = LogThrottle::default();
        assert_eq!((0..100).filter(|_| lines.take(7)).count() as u64, A_SECOND);
        assert!(lines.take(8));
    }

    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let notices = UncountedNotices::default();
        let first = notices.take(7).unwrap();
        assert!(first.starts_with("1 request was refused "), "{first}");
        assert_eq!((0..100).filter_map(|_| notices.take(66)).count(), 0);
        let others = notices.take(67).unwrap();
        assert!(others.starts_with("101 requests were refused "), "{others}");
    }
}
