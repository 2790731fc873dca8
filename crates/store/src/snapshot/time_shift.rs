/// One moment by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// By the clock that a store decides by.
    pub(super) store_ns: u64,
    /// By the time of day.
    pub(super) wall_ns: u64,
}

/// From the times of a store that was written down to those of the one that is filled.
///
/// What the time of day says has passed meanwhile counts as passed. Where that
/// has gone backwards, nothing has passed: nobody gets anything back for it.
/// For the rest the two clocks may differ: the old one was set to the time of
/// day long ago, and that may have been corrected since.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeShift {
    ns: i128,
}

impl TimeShift {
    pub(super) fn between(written: Moment, now: Moment) -> TimeShift {
        let passed_ns = now.wall_ns.saturating_sub(written.wall_ns);
        TimeShift { ns: i128::from(now.store_ns) - i128::from(written.store_ns) - i128::from(passed_ns) }
    }

    /// A time of the old store as one of the new. What never comes still never does.
    pub(super) fn apply(self, time_ns: u64) -> u64 {
        if time_ns == u64::MAX {
            return time_ns;
        }
        u64::try_from((i128::from(time_ns) + self.ns).max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: Moment = Moment { store_ns: 1_000, wall_ns: 5_000 };

    fn shifted(now: Moment, time_ns: u64) -> u64 {
        TimeShift::between(WRITTEN, now).apply(time_ns)
    }

    #[test]
    fn what_has_passed_meanwhile_has_passed() {
        // 300 have passed, and of 150 that were to come none are left.
        assert_eq!(shifted(Moment { store_ns: 1_300, wall_ns: 5_300 }, 1_150), 1_150);
        // By a clock that begins elsewhere.
        assert_eq!(shifted(Moment { store_ns: 7_000, wall_ns: 5_300 }, 1_150), 7_000 - 150);
        assert_eq!(shifted(Moment { store_ns: 7_000, wall_ns: 5_300 }, 1_400), 7_000 + 100);
    }

    #[test]
    fn nothing_has_passed_when_the_time_of_day_went_backwards() {
        assert_eq!(shifted(Moment { store_ns: 200, wall_ns: 4_000 }, 1_150), 350);
        assert_eq!(shifted(Moment { store_ns: 200, wall_ns: 0 }, 1_150), 350);
    }

    #[test]
    fn the_ends_of_time_hold() {
        assert_eq!(shifted(Moment { store_ns: 0, wall_ns: u64::MAX }, 3), 0);
        assert_eq!(shifted(Moment { store_ns: u64::MAX, wall_ns: 0 }, u64::MAX - 1), u64::MAX);
        assert_eq!(shifted(Moment { store_ns: 0, wall_ns: u64::MAX }, u64::MAX), u64::MAX);
    }
}
