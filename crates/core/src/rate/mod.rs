pub(crate) mod parser;

use std::fmt;
use std::time::Duration;

/// The largest limit, burst or permit count: 10^12, which fits 40 bits.
pub const MAX_AMOUNT: u64 = 1_000_000_000_000;

/// The longest period, and the longest time a burst may take to refill: 2^60 ns, about 36 years.
pub const MAX_SPAN_NS: u64 = 1 << 60;

const MS_NS: u64 = 1_000_000;

/// So many in so long, perhaps with a burst: `100/s`, `10 per 30s`, `60/min burst 100`.
///
/// A value of this type is within the ranges that every algorithm can compute
/// exactly: `1 ≤ count ≤ 10^12`, a period of whole milliseconds up to 36 years,
/// at most 10^9 a second, and a burst that refills within 36 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u64,
    period_ns: u64,
    burst: Option<u64>,
}

/// Why a rate cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// The count was 0.
    ZeroCount,
    /// The count was above [`MAX_AMOUNT`].
    CountTooLarge,
    /// The period was 0, longer than [`MAX_SPAN_NS`], or not whole milliseconds.
    Period,
    /// More than 10^9 a second.
    TooFast,
    /// The burst was 0.
    ZeroBurst,
    /// The burst was above [`MAX_AMOUNT`].
    BurstTooLarge,
    /// The burst would take longer than [`MAX_SPAN_NS`] to refill.
    BurstTooSlow,
}

impl Rate {
    /// `count` in every `period`.
    pub fn new(count: u64, period: Duration) -> Result<Rate, RateError> {
        if count == 0 {
            return Err(RateError::ZeroCount);
        }
        if count > MAX_AMOUNT {
            return Err(RateError::CountTooLarge);
        }
        let period_ns = u64::try_from(period.as_nanos()).map_err(|_| RateError::Period)?;
        if period_ns == 0 || period_ns > MAX_SPAN_NS || !period_ns.is_multiple_of(MS_NS) {
            return Err(RateError::Period);
        }
        if count > period_ns {
            return Err(RateError::TooFast);
        }
        Ok(Rate { count, period_ns, burst: None })
    }

    /// The same rate with room for `burst` at once.
    pub fn with_burst(self, burst: u64) -> Result<Rate, RateError> {
        if burst == 0 {
            return Err(RateError::ZeroBurst);
        }
        if burst > MAX_AMOUNT {
            return Err(RateError::BurstTooLarge);
        }
        // The refill time is rounded up by one more tick a token where the rate is no short fraction.
        let refill_ns = u128::from(burst) * u128::from(self.period_ns) / u128::from(self.count);
        if refill_ns + u128::from(burst) > u128::from(MAX_SPAN_NS) {
            return Err(RateError::BurstTooSlow);
        }
        Ok(Rate { burst: Some(burst), ..self })
    }

    /// How many in a period.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The period in nanoseconds.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// The period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// The burst that was asked for, if any.
    #[must_use]
    pub const fn burst(&self) -> Option<u64> {
        self.burst
    }

    /// The burst a bucket of this rate has: as asked for, else twice the count
    /// for periods of up to a second and the count for longer ones. A burst
    /// makes short limits bearable and long ones dangerous.
    #[must_use]
    pub fn burst_or_default(&self) -> u64 {
        let default = if self.period_ns <= 1_000 * MS_NS { 2 * self.count } else { self.count };
        self.burst.unwrap_or(default.min(MAX_AMOUNT))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.count)?;
        let ms = self.period_ns / MS_NS;
        let (size_ms, name) = parser::largest_unit_dividing(ms);
        match ms / size_ms {
            1 => f.write_str(name)?,
            n => write!(f, "{n}{name}")?,
        }
        self.burst.map_or(Ok(()), |burst| write!(f, " burst {burst}"))
    }
}

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RateError::ZeroCount => "a limit must be at least 1",
            RateError::CountTooLarge => "a limit must be at most 1000000000000 (10^12)",
            RateError::Period => "a period must be whole milliseconds, at least 1ms and at most 36 years",
            RateError::TooFast => "a rate must be at most 1000000000 (10^9) per second",
            RateError::ZeroBurst => "a burst must be at least 1",
            RateError::BurstTooLarge => "a burst must be at most 1000000000000 (10^12)",
            RateError::BurstTooSlow => "a burst must refill within 36 years at its rate",
        })
    }
}

impl std::error::Error for RateError {}
