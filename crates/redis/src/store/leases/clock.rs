//! The clock of lease holders.

#[cfg(any(test, not(target_os = "linux")))]
use tokio::time::Instant;

/// The clock by which a holder stops spending a lease: monotonic, and it also counts the time for which the machine is
/// suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LeaseClock {
    /// `CLOCK_BOOTTIME`.
    #[cfg(target_os = "linux")]
    Boottime,
    /// The clock of the runtime, for tests and other systems; it differs from real time by `drift_ppm`.
    #[cfg(any(test, not(target_os = "linux")))]
    Runtime {
        /// The time at which it was 1 ns.
        started: Instant,
        /// By how many parts in a million it runs fast; negative if slow.
        drift_ppm: i64,
    },
}

impl LeaseClock {
    pub(crate) fn real() -> LeaseClock {
        #[cfg(target_os = "linux")]
        return LeaseClock::Boottime;
        #[cfg(not(target_os = "linux"))]
        return LeaseClock::Runtime { started: Instant::now(), drift_ppm: 0 };
    }

    /// Returns a time in nanoseconds, comparable only with other times of this clock.
    pub(super) fn now_ns(self) -> u64 {
        match self {
            #[cfg(target_os = "linux")]
            LeaseClock::Boottime => boottime_ns(),
            #[cfg(any(test, not(target_os = "linux")))]
            LeaseClock::Runtime { started, drift_ppm } => {
                let elapsed_ns = i128::try_from(started.elapsed().as_nanos()).unwrap_or(i128::MAX / 2_000_000);
                let drifted_ns = elapsed_ns + elapsed_ns * i128::from(drift_ppm) / 1_000_000;
                u64::try_from(drifted_ns + 1).unwrap_or(0)
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the standard library has no clock that counts suspended time")]
fn boottime_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec, and the call writes nothing else.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    debug_assert_eq!(result, 0, "every Linux since 2.6.39 has CLOCK_BOOTTIME");
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn real_clock_is_monotonic_and_runs() {
        let clock = LeaseClock::real();
        let first = clock.now_ns();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.now_ns() >= first + 2_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_clock_drifts() {
        let clock = LeaseClock::Runtime { started: Instant::now(), drift_ppm: 200 };
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(clock.now_ns(), 10_002_000_001);
    }
}
