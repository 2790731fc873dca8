use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
}
