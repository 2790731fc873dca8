//! Rate limits of log lines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The maximum number of lines a second about violations.
const MAX_LINES_PER_SECOND: u64 = 50;

/// The maximum number of lines a second of one kind, other than the first line of a client.
const MAX_KIND_LINES_PER_SECOND: u64 = 10;

/// The kind of a line. No kind can use the whole budget of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) enum LineKind {
    /// The first refusal of a client in this window.
    First,
    /// A repeated refusal.
    Repeated,
    /// A refusal by a shadow rule.
    Shadow,
    /// A warning, a delay, or a refusal without a rule.
    Other,
}

/// The lines written in a second: 8 bits for all lines, and 8 for each kind with its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) struct LinesUsed(u64);

/// The line budget of the current second. In a flood the only cost is reading it.
#[derive(Debug, Default)]
pub(in crate::observe) struct LineBudget {
    /// The second in the upper half, and the lines used in it.
    spent: AtomicU64,
}

impl LineKind {
    /// Returns the bit position of its counter, if it has one.
    const fn shift(self) -> Option<u32> {
        match self {
            LineKind::First => None,
            LineKind::Repeated => Some(8),
            LineKind::Shadow => Some(16),
            LineKind::Other => Some(24),
        }
    }
}

impl LinesUsed {
    /// Returns whether the whole budget is used.
    #[inline]
    pub(in crate::observe) fn is_exhausted(self) -> bool {
        self.0 & 0xff >= MAX_LINES_PER_SECOND
    }

    /// Returns whether a line of this kind is left.
    #[inline]
    pub(in crate::observe) fn allows(self, kind: LineKind) -> bool {
        let used = kind.shift().map_or(0, |shift| (self.0 >> shift) & 0xff);
        !self.is_exhausted() && used < MAX_KIND_LINES_PER_SECOND
    }

    fn plus(self, kind: LineKind) -> LinesUsed {
        LinesUsed(self.0 + 1 + kind.shift().map_or(0, |shift| 1 << shift))
    }
}

impl LineBudget {
    #[inline]
    pub(in crate::observe) fn spent(&self, now_s: u64) -> LinesUsed {
        spent_in(now_s, self.spent.load(Relaxed))
    }

    /// Takes a line; `false` if another thread took the last.
    pub(in crate::observe) fn take(&self, now_s: u64, kind: LineKind) -> bool {
        let taken = self.spent.try_update(Relaxed, Relaxed, |all| {
            let spent = spent_in(now_s, all);
            let second = now_s.max(all >> 32);
            spent.allows(kind).then(|| (second << 32) | spent.plus(kind).0)
        });
        taken.is_ok()
    }
}

/// Returns the lines used in that second. A clock that is set back grants no extra lines.
fn spent_in(now_s: u64, all: u64) -> LinesUsed {
    LinesUsed(if now_s > all >> 32 { 0 } else { all & 0xffff_ffff })
}

/// The maximum number of lines a second of a throttled kind.
const LINES_PER_SECOND: u64 = 5;

/// Limits log lines of one kind to a few a second: a server that flaps, or a caller that tries tokens, must not fill a
/// disk.
#[derive(Debug, Default)]
pub(in crate::observe) struct LogThrottle {
    /// The second, and the lines used in it.
    spent: Mutex<(u64, u64)>,
}

impl LogThrottle {
    pub(in crate::observe) fn take(&self, now_s: u64) -> bool {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if spent.0 != now_s {
            *spent = (now_s, 0);
        }
        spent.1 += 1;
        spent.1 <= LINES_PER_SECOND
    }
}

/// The interval between notices. A full store stays full for long.
const NOTICE_INTERVAL_S: u64 = 60;

/// Reports periodically how many requests are refused because they cannot be counted.
#[derive(Debug, Default)]
pub(in crate::observe) struct UncountedNotices {
    spent: Mutex<SinceLast>,
}

#[derive(Debug, Default)]
struct SinceLast {
    /// When the next notice is due.
    next_s: u64,
    since_last: u64,
}

impl UncountedNotices {
    /// Counts one request, and returns the message for all since the last notice, if one is due.
    pub(in crate::observe) fn take(&self, now_s: u64) -> Option<String> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.since_last += 1;
        if now_s < spent.next_s {
            return None;
        }
        let count = std::mem::take(&mut spent.since_last);
        spent.next_s = now_s + NOTICE_INTERVAL_S;
        let refused = if count == 1 { "1 request was".to_owned() } else { format!("{count} requests were") };
        Some(format!(
            "{refused} refused because the store could not count: it is full (`when_full: refuse`), \
             or unreachable (`on_failure: closed`)"
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
    fn lines_per_second_are_limited() {
        let budget = LineBudget::default();
        assert_eq!(taken(&budget, 1_700_000_000, LineKind::First, 1_000), MAX_LINES_PER_SECOND);
        assert!(!budget.spent(1_700_000_000).allows(LineKind::First));
        assert!(budget.spent(1_700_000_001).allows(LineKind::First));
        // A clock that is set back grants no extra lines.
        assert_eq!(taken(&budget, 1_699_999_999, LineKind::First, 1_000), 0);
    }

    #[test]
    fn no_kind_uses_the_whole_budget() {
        let budget = LineBudget::default();
        for kind in [LineKind::Repeated, LineKind::Shadow, LineKind::Other] {
            assert_eq!(taken(&budget, 5, kind, 1_000), MAX_KIND_LINES_PER_SECOND);
        }
        assert_eq!(taken(&budget, 5, LineKind::First, 1_000), MAX_LINES_PER_SECOND - 3 * MAX_KIND_LINES_PER_SECOND);
    }

    #[test]
    fn threads_share_the_budget() {
        let budget = LineBudget::default();
        let all = std::thread::scope(|scope| {
            let taken = || taken(&budget, 9, LineKind::First, 1_000);
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(taken)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        assert_eq!(all, MAX_LINES_PER_SECOND);
    }

    #[test]
    fn throttled_lines_per_second_are_limited() {
        let lines = LogThrottle::default();
        assert_eq!((0..100).filter(|_| lines.take(7)).count() as u64, LINES_PER_SECOND);
        assert!(lines.take(8));
    }

    #[test]
    fn first_notice_is_immediate_and_the_rest_are_summarized() {
        let notices = UncountedNotices::default();
        let first = notices.take(7).unwrap();
        assert!(first.starts_with("1 request was refused "), "{first}");
        assert_eq!((0..100).filter_map(|_| notices.take(66)).count(), 0);
        let others = notices.take(67).unwrap();
        assert!(others.starts_with("101 requests were refused "), "{others}");
    }
}
