/// One moment on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The time of the clock by which a store decides.
    pub(super) store_ns: u64,
    /// The time of day.
    pub(super) wall_ns: u64,
}

/// Converts times of the store that wrote a snapshot to times of the restored one.
///
/// The time that has passed by the time of day counts as passed. If the time of day went backwards, none has passed:
/// nothing is refilled for it. Apart from that the two clocks may differ: the old one was set to the time of day long
/// ago, and the time of day may have been corrected since.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeShift {
    ns: i128,
}

impl TimeShift {
    pub(super) fn between(written: Moment, now: Moment) -> TimeShift {
        let passed_ns = now.wall_ns.saturating_sub(written.wall_ns);
        TimeShift { ns: i128::from(now.store_ns) - i128::from(written.store_ns) - i128::from(passed_ns) }
    }

    /// Converts a time of the old store to the new one. `u64::MAX`, which means never, stays.
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
    fn time_that_passed_meanwhile_counts_as_passed() {
        // 300 have passed, and of 150 that were left none remain.
        assert_eq!(shifted(Moment { store_ns: 1_300, wall_ns: 5_300 }, 1_150), 1_150);
        // With a clock that starts elsewhere.
        assert_eq!(shifted(Moment { store_ns: 7_000, wall_ns: 5_300 }, 1_150), 7_000 - 150);
        assert_eq!(shifted(Moment { store_ns: 7_000, wall_ns: 5_300 }, 1_400), 7_000 + 100);
    }

    #[test]
    fn no_time_passes_when_the_time_of_day_went_backwards() {
        assert_eq!(shifted(Moment { store_ns: 200, wall_ns: 4_000 }, 1_150), 350);
        assert_eq!(shifted(Moment { store_ns: 200, wall_ns: 0 }, 1_150), 350);
    }

    #[test]
    fn shifted_times_saturate_at_both_ends() {
        assert_eq!(shifted(Moment { store_ns: 0, wall_ns: u64::MAX }, 3), 0);
        assert_eq!(shifted(Moment { store_ns: u64::MAX, wall_ns: 0 }, u64::MAX - 1), u64::MAX);
        assert_eq!(shifted(Moment { store_ns: 0, wall_ns: u64::MAX }, u64::MAX), u64::MAX);
    }
}
