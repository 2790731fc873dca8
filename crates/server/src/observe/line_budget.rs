use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many lines about violations are written in a second, whatever happens.
pub(super) const LINES_A_SECOND: u64 = 50;

/// How many of them may be about a client that this rule has refused in the
/// same window before: the others are for those of whom nothing is known yet.
pub(super) const REPEATED_A_SECOND: u64 = 10;

/// Who still gets a line in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Everybody.
    ForAll,
    /// Only who is new.
    ForFirst,
    /// Nobody.
    Nothing,
}

/// The lines of a second. In a flood all that it costs is to read it.
#[derive(Debug, Default)]
pub(super) struct LineBudget {
    /// The second, and 8 bits each for how many lines were written and how many of them were repeated.
    spent: AtomicU64,
}

impl LineBudget {
    pub(super) fn left(&self, now_s: u64) -> Left {
        left(used_in(now_s, self.spent.load(Relaxed)))
    }

    /// Takes a line; `false` if others were faster.
    pub(super) fn take(&self, now_s: u64, is_first: bool) -> bool {
        let taken = self.spent.try_update(Relaxed, Relaxed, |spent| {
            let (lines, repeated) = used_in(now_s, spent);
            let fits = match left((lines, repeated)) {
                Left::ForAll => true,
                Left::ForFirst => is_first,
                Left::Nothing => false,
            };
            let second = now_s.max(spent >> 16);
            fits.then(|| (second << 16) | ((lines + 1) << 8) | (repeated + u64::from(!is_first)))
        });
        taken.is_ok()
    }
}

/// What was used in that second. Nothing is given twice because a clock goes back.
fn used_in(now_s: u64, spent: u64) -> (u64, u64) {
    if now_s > spent >> 16 { (0, 0) } else { ((spent >> 8) & 0xff, spent & 0xff) }
}

fn left((lines, repeated): (u64, u64)) -> Left {
    match () {
        () if lines >= LINES_A_SECOND => Left::Nothing,
        () if repeated >= REPEATED_A_SECOND => Left::ForFirst,
        () => Left::ForAll,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(budget: &LineBudget, now_s: u64, is_first: bool, tries: u64) -> u64 {
        (0..tries).filter(|_| budget.take(now_s, is_first)).count() as u64
    }

    #[test]
    fn a_second_has_so_many_lines() {
        let budget = LineBudget::default();
        assert_eq!(taken(&budget, 1_700_000_000, true, 1_000), LINES_A_SECOND);
        assert_eq!(budget.left(1_700_000_000), Left::Nothing);
        assert_eq!(budget.left(1_700_000_001), Left::ForAll);
        // A clock that goes back gives nothing twice.
        assert_eq!(taken(&budget, 1_699_999_999, true, 1_000), 0);
    }

    #[test]
    fn who_repeats_leaves_room_for_who_is_new() {
        let budget = LineBudget::default();
        assert_eq!(taken(&budget, 5, false, 1_000), REPEATED_A_SECOND);
        assert_eq!(budget.left(5), Left::ForFirst);
        assert_eq!(taken(&budget, 5, true, 1_000), LINES_A_SECOND - REPEATED_A_SECOND);
    }

    #[test]
    fn threads_share_it() {
        let budget = LineBudget::default();
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| taken(&budget, 9, true, 1_000))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        assert_eq!(all, LINES_A_SECOND);
    }
}
