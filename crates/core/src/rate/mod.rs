pub(crate) mod parser;

use std::fmt;
use std::time::Duration;

/// The largest limit, burst or number of permits: 10^12, which fits in 40 bits.
pub const MAX_AMOUNT: u64 = 1_000_000_000_000;

/// The longest period, and the longest time that a burst may take to refill: 2^60 ns, about 36 years.
pub const MAX_SPAN_NS: u64 = 1 << 60;

const MS_NS: u64 = 1_000_000;

/// A count in a period, with an optional burst: `100/s`, `10 per 30s`, `60/min burst 100`.
///
/// Every rate is within the ranges that all algorithms can compute exactly: `1 ≤ count ≤ 10^12`, a period of whole
/// milliseconds up to 36 years, at most 10^9 a second, and a burst that refills within 36 years.
///
/// ```
/// use std::time::Duration;
///
/// use tollgate_core::Rate;
///
/// let rate: Rate = "60/min burst 100".parse()?;
/// assert_eq!((rate.count(), rate.period(), rate.burst()), (60, Duration::from_secs(60), Some(100)));
/// assert_eq!(rate, Rate::new(60, Duration::from_secs(60))?.with_burst(100)?);
/// assert_eq!(rate.to_string(), "60/min burst 100");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    count: u64,
    period_ns: u64,
    burst: Option<u64>,
}

/// The reasons why a rate cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RateError {
    /// The count is 0.
    ZeroCount,
    /// The count is above [`MAX_AMOUNT`].
    CountTooLarge,
    /// The period is 0, longer than [`MAX_SPAN_NS`], or not in whole milliseconds.
    Period,
    /// The rate is more than 10^9 a second.
    TooFast,
    /// The burst is 0.
    ZeroBurst,
    /// The burst is above [`MAX_AMOUNT`].
    BurstTooLarge,
    /// The burst would take longer than [`MAX_SPAN_NS`] to refill.
    BurstTooSlow,
}

impl Rate {
    /// Creates a rate of `count` in every `period`.
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

    /// Returns the same rate with a burst.
    pub fn with_burst(self, burst: u64) -> Result<Rate, RateError> {
        if burst == 0 {
            return Err(RateError::ZeroBurst);
        }
        if burst > MAX_AMOUNT {
            return Err(RateError::BurstTooLarge);
        }
        // If the time of a token is not a short fraction, the compiled time is rounded up, by at most one tick a token.
        let refill_ns = u128::from(burst) * u128::from(self.period_ns) / u128::from(self.count);
        if refill_ns + u128::from(burst) > u128::from(MAX_SPAN_NS) {
            return Err(RateError::BurstTooSlow);
        }
        Ok(Rate { burst: Some(burst), ..self })
    }

    /// Returns the count in a period.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the period in nanoseconds.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// Returns the burst that was set, if any.
    #[must_use]
    pub const fn burst(&self) -> Option<u64> {
        self.burst
    }

    /// Returns the burst that a bucket of this rate has: the one that was set, or else twice the count for periods of
    /// up to a second and the count for longer ones. A burst makes short limits bearable and long limits dangerous.
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
