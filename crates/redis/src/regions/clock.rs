//! Bounds of the clocks of servers, from the times at which calls were sent and answered.

/// By how many parts in a million the clocks of two machines run apart at most.
const MAX_DRIFT_PPM: u64 = 500;

/// A time of a server's clock, read by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockReading {
    pub(super) server_us: u64,
    /// When the call was sent and when it was answered, by the local clock.
    pub(super) sent_ns: u64,
    pub(super) received_ns: u64,
}

impl ClockReading {
    /// Returns the least and the greatest time that the server's clock may show at a local time.
    pub(super) fn at(&self, local_ns: u64) -> (u64, u64) {
        let since = |ns: u64| (i128::from(local_ns) - i128::from(ns)) / 1_000;
        let drift_us = drift_us(since(self.sent_ns)).max(drift_us(since(self.received_ns)));
        let server_us = i128::from(self.server_us);
        (
            clamp(server_us + since(self.received_ns) - 1 - drift_us),
            clamp(server_us + since(self.sent_ns) + 1 + drift_us),
        )
    }

    /// Returns the earliest and the latest local time at which the server's clock shows a time.
    pub(super) fn when(&self, server_us: u64) -> (u64, u64) {
        let away_us = i128::from(server_us) - i128::from(self.server_us);
        let drift_us = drift_us(away_us);
        let local = |from_ns: u64, us: i128| clamp(i128::from(from_ns) + us * 1_000);
        (local(self.sent_ns, away_us - drift_us), local(self.received_ns, away_us + drift_us))
    }
}

fn drift_us(elapsed_us: i128) -> i128 {
    elapsed_us.abs() * i128::from(MAX_DRIFT_PPM) / 1_000_000 + 1
}

fn clamp(value: i128) -> u64 {
    u64::try_from(value.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_are_as_wide_as_the_calls_took() {
        let reading = ClockReading { server_us: 1_000_000, sent_ns: 5_000_000, received_ns: 7_000_000 };
        let (least, greatest) = reading.at(7_000_000);
        assert_eq!((least, greatest), (999_997, 1_002_003));
    }

    proptest! {
        /// A server whose clock is offset and drifts, read by a call that takes any time.
        #[test]
        fn true_time_is_always_within_the_bounds(
            offset in 0..1_000_000_000_u64,
            drift in -250..250_i64,
            call in (0..100_000_u64, 0..100_000_u64),
            read_at in 1_000_000..20_000_000_u64,
            moment_us in 1_000_000..40_000_000_u64,
        ) {
            let clock = |offset: u64, drift: i64, true_us: u64| {
                offset + true_us.saturating_add_signed(true_us as i64 * drift / 1_000_000)
            };
            let reading = |offset, drift, true_us: u64, (there, back): (u64, u64)| ClockReading {
                server_us: clock(offset, drift, true_us),
                sent_ns: (true_us - there) * 1_000,
                received_ns: (true_us + back) * 1_000,
            };
            let one = reading(offset, drift, read_at, call);
            let (least, greatest) = one.at(moment_us * 1_000);
            let truth = clock(offset, drift, moment_us);
            prop_assert!((least..=greatest).contains(&truth), "{least} {truth} {greatest}");
            let (earliest, latest) = one.when(truth);
            prop_assert!((earliest..=latest).contains(&(moment_us * 1_000)), "{earliest} {moment_us} {latest}");
        }
    }
}
