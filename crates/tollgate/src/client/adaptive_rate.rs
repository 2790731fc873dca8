//! The rate of requests to a server that keeps refusing them: multiplicative decrease, cubic increase.
//!
//! The method is that of CUBIC congestion control. A refusal lowers the rate to 7/10 of what was sent. Afterwards the
//! rate returns on a cubic curve: fast at first, flat around the rate that was refused, then fast again.

const S_NS: u64 = 1_000_000_000;

/// The rate is measured over intervals of half a second.
const MEASURED_NS: u64 = S_NS / 2;

/// The share of the rate that remains after a refusal: 7/10.
const DECREASE: (u64, u64) = (7, 10);

/// The lowest rate, in thousandths of a request per second: one request in two seconds.
const MIN_RATE_MHZ: u64 = 500;

/// No limit follows from refusals any more if there was none for so long.
const FORGOTTEN_AFTER_NS: u64 = 60 * S_NS;

/// The rate of one key. All rates are in thousandths of a request per second.
#[derive(Clone, Debug, Default)]
pub(super) struct AdaptiveRate {
    measured: MeasuredRate,
    /// Set after a refusal.
    limited: Option<Limited>,
}

#[derive(Clone, Copy, Debug)]
struct Limited {
    rate_mhz: u64,
    /// The rate that was refused.
    refused_mhz: u64,
    refused_ns: u64,
}

impl AdaptiveRate {
    /// Counts a request that is sent.
    pub(super) fn sent(&mut self, now_ns: u64) {
        self.measured.count(now_ns);
    }

    /// Lowers the rate after a refusal. Several refusals within the time of one request are one event: they were sent
    /// at the same rate.
    pub(super) fn refused(&mut self, now_ns: u64) {
        let measured_mhz = self.measured.rate_mhz(now_ns).max(MIN_RATE_MHZ);
        let rate_mhz = match self.limited {
            Some(limited) if now_ns.saturating_sub(limited.refused_ns) < MEASURED_NS => return,
            Some(limited) => limited.rate_mhz.min(measured_mhz),
            None => measured_mhz,
        };
        let lower_mhz = (rate_mhz * DECREASE.0 / DECREASE.1).max(MIN_RATE_MHZ);
        self.limited = Some(Limited { rate_mhz: lower_mhz, refused_mhz: rate_mhz, refused_ns: now_ns });
    }

    /// Raises the rate after a response that is not a refusal.
    pub(super) fn accepted(&mut self, now_ns: u64) {
        let measured_mhz = self.measured.rate_mhz(now_ns);
        let Some(limited) = &mut self.limited else { return };
        let since_ns = now_ns.saturating_sub(limited.refused_ns);
        if since_ns >= FORGOTTEN_AFTER_NS {
            self.limited = None;
            return;
        }
        let cubic_mhz = cubic(limited.refused_mhz, since_ns / 1_000_000);
        // A client that sends little must not raise its rate without limit.
        let most_mhz = measured_mhz.saturating_mul(2).max(limited.rate_mhz);
        limited.rate_mhz = cubic_mhz.min(most_mhz).max(MIN_RATE_MHZ);
    }

    /// Returns the time between two requests; 0 without a limit.
    pub(super) fn interval_ns(&self) -> u64 {
        self.limited.map_or(0, |limited| S_NS * 1_000 / limited.rate_mhz)
    }
}

/// Returns the rate at `since_ms` after a refusal at `refused_mhz`: `0.4 * (t - k)^3 + refused`, in requests and
/// seconds. `k` is the time at which the refused rate is reached again: the cube root of `refused * 0.3 / 0.4`.
fn cubic(refused_mhz: u64, since_ms: u64) -> u64 {
    // In thousandths: k^3 in ms^3 is refused_mhz * 0.75 / 1000 s^3 = refused_mhz * 750_000 ms^3.
    let k_ms = cube_root(u128::from(refused_mhz) * 750_000);
    let away_ms = i128::from(since_ms) - i128::from(k_ms);
    // 0.4 requests per s^4 are 400 mHz per 10^9 ms^3.
    let change_mhz = away_ms.pow(3) * 400 / 1_000_000_000;
    u64::try_from((i128::from(refused_mhz) + change_mhz).max(0)).unwrap_or(u64::MAX)
}

/// Returns the cube root, rounded down.
fn cube_root(number: u128) -> u64 {
    let (mut low, mut high) = (0_u64, 1 << 42);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if u128::from(middle).pow(3) <= number { low = middle } else { high = middle - 1 }
    }
    low
}

/// The rate at which requests were sent: a moving mean of intervals of half a second.
#[derive(Clone, Debug, Default)]
struct MeasuredRate {
    started_ns: u64,
    count: u64,
    mean_mhz: u64,
}

impl MeasuredRate {
    fn count(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.count += 1;
    }

    fn rate_mhz(&mut self, now_ns: u64) -> u64 {
        self.advance(now_ns);
        // In the first interval: what was sent so far, as if it were all.
        if self.mean_mhz == 0 { self.count.saturating_mul(1_000 * S_NS / MEASURED_NS) } else { self.mean_mhz }
    }

    /// Closes the current interval if it has ended. An interval without requests has made it longer.
    fn advance(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.started_ns);
        if self.count == 0 && self.mean_mhz == 0 {
            self.started_ns = now_ns;
        } else if elapsed_ns >= MEASURED_NS {
            let rate_mhz = u128::from(self.count) * 1_000 * u128::from(S_NS) / u128::from(elapsed_ns);
            let rate_mhz = u64::try_from(rate_mhz).unwrap_or(u64::MAX / 8);
            self.mean_mhz = if self.mean_mhz == 0 { rate_mhz } else { (rate_mhz * 4 + self.mean_mhz) / 5 };
            (self.started_ns, self.count) = (now_ns, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends at an even rate for a time, and returns its end.
    fn send(rate: &mut AdaptiveRate, from_ns: u64, per_s: u64, seconds: u64) -> u64 {
        let step_ns = S_NS / per_s;
        let end_ns = from_ns + seconds * S_NS;
        let mut now_ns = from_ns;
        while now_ns < end_ns {
            rate.sent(now_ns);
            rate.accepted(now_ns);
            now_ns += step_ns;
        }
        end_ns
    }

    fn per_s(rate: &AdaptiveRate) -> u64 {
        S_NS / rate.interval_ns()
    }

    #[test]
    fn rate_is_unlimited_before_the_first_refusal() {
        let mut rate = AdaptiveRate::default();
        send(&mut rate, 0, 100, 5);
        assert_eq!(rate.interval_ns(), 0);
    }

    #[test]
    fn refusal_lowers_the_measured_rate_by_three_tenths() {
        let mut rate = AdaptiveRate::default();
        let now_ns = send(&mut rate, 0, 100, 5);
        rate.refused(now_ns);
        assert!((68..=71).contains(&per_s(&rate)), "{}", per_s(&rate));
        rate.refused(now_ns + 1);
        assert!((68..=71).contains(&per_s(&rate)), "a burst of refusals is one event");
        let now_ns = send(&mut rate, now_ns, 70, 1);
        rate.refused(now_ns);
        assert!((45..=56).contains(&per_s(&rate)), "{}", per_s(&rate));
    }

    #[test]
    fn rate_recovers_on_a_cubic_curve_and_is_then_unlimited() {
        let mut rate = AdaptiveRate::default();
        let mut now_ns = send(&mut rate, 0, 100, 5);
        rate.refused(now_ns);
        let mut rates = Vec::new();
        for _ in 0..12 {
            let at_rate = per_s(&rate);
            now_ns = send(&mut rate, now_ns, at_rate, 1);
            rates.push(per_s(&rate));
        }
        // k is the cube root of 75: 4.2 s.
        assert!(rates.windows(2).all(|pair| pair[0] <= pair[1]), "{rates:?}");
        assert!((90..=100).contains(&rates[3]) && rates[11] > 150, "{rates:?}");
        send(&mut rate, now_ns, 100, 60);
        assert_eq!(rate.interval_ns(), 0);
    }

    #[test]
    fn rate_never_falls_below_one_request_in_two_seconds() {
        let mut rate = AdaptiveRate::default();
        (0..100).for_each(|at| rate.refused(at * S_NS));
        assert_eq!(rate.interval_ns(), 2 * S_NS);
    }

    #[test]
    fn idle_client_does_not_raise_its_rate() {
        let mut rate = AdaptiveRate::default();
        let now_ns = send(&mut rate, 0, 10, 5);
        rate.refused(now_ns);
        rate.sent(now_ns + 50 * S_NS);
        rate.accepted(now_ns + 50 * S_NS);
        assert!(per_s(&rate) <= 7, "{}", per_s(&rate));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let mut rate = AdaptiveRate::default();
        for now_ns in [0, u64::MAX, 0, 1, u64::MAX / 2, u64::MAX] {
            rate.sent(now_ns);
            rate.accepted(now_ns);
            rate.refused(now_ns);
        }
        assert!(rate.interval_ns() <= 2 * S_NS);
        assert_eq!(cube_root(u128::from(u64::MAX).pow(2)).min(1 << 42), 1 << 42);
        assert_eq!([0, 1, 7, 8, 26, 27].map(cube_root), [0, 1, 1, 2, 2, 3]);
    }
}
