use std::fmt;
use std::time::Duration;

use crate::rate::{MAX_AMOUNT, MAX_SPAN_NS, Rate, RateError};

/// A rate under an algorithm. Every quota that can be built can be computed exactly.
///
/// ```
/// use std::time::Duration;
///
/// use tollgate_core::{Queue, Quota};
///
/// // 100 requests at once; tokens refill at 100 a minute.
/// let bucket = Quota::token_bucket("100/min".parse()?)?;
/// assert_eq!(bucket.burst(), 100);
///
/// // At most 100 requests in any minute.
/// let log = Quota::sliding_window_log("100/min".parse()?)?;
///
/// // Ten requests a second, evenly spaced. Up to 20 wait, for at most one second.
/// let queue = Queue { size: 20, max_wait: Some(Duration::from_secs(1)) };
/// let queue = Quota::leaky_queue("10/s".parse()?, queue)?;
///
/// // Eight requests in flight. A permit that is not renewed expires after 30 seconds.
/// let permits = Quota::concurrency(8, Some(Duration::from_secs(30)))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    kind: AlgorithmKind,
    /// The count in a period. For concurrency: the number of permits, and the period is the lease.
    amount: u64,
    period_ns: u64,
    burst: u64,
    /// The longest delay of a reservation: the `max_wait` of a queue, or the time of
    /// [`with_reservations`](Quota::with_reservations).
    ahead_ns: u64,
    queue_size: u64,
    /// The largest debt beyond the limit, caused by settling above an estimate.
    max_debt: u64,
}

/// The rate limiting algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlgorithmKind {
    /// Tokens refill steadily up to a burst. The default.
    TokenBucket,
    /// A meter drains steadily. Its decisions equal those of a token bucket.
    LeakyBucket,
    /// Delays requests so that they depart at a steady rate.
    LeakyQueue,
    /// Counts in windows aligned to the clock. Up to twice the limit can pass across a boundary.
    FixedWindow,
    /// Weighs the count of the previous window by how much of it overlaps the sliding window.
    SlidingWindowCounter,
    /// Stores a timestamp for every request. Exact, with the largest state.
    SlidingWindowLog,
    /// Limits the number of requests in flight.
    Concurrency,
}

/// The queue of a leaky bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The number of requests in the queue: the waiting ones, and the one that departed last until the next can depart.
    /// Of 15 requests that arrive at once, a queue of 10 lets the first depart, holds 9 and refuses 5.
    pub size: u64,
    /// The longest wait of a request; `None` if only the size limits it.
    pub max_wait: Option<Duration>,
}

/// The reasons why a quota cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// The rate's burst is out of range.
    Rate(RateError),
    /// A burst was set on a window, which lets its whole limit pass at once anyway.
    BurstOnWindow,
    /// A burst was set on a queue, which releases one request at a time.
    BurstOnQueue,
    /// The queue has a size of 0.
    EmptyQueue,
    /// The queue has a size of [`MAX_AMOUNT`] or more.
    QueueTooLong,
    /// The log has more than [`Quota::MAX_LOG`] entries.
    LogTooLong,
    /// The number of permits is 0 or more than [`MAX_AMOUNT`].
    Permits,
    /// The lease is 0 or more than 36 years.
    Lease,
    /// Burst and reservations, or the queue, reach more than 36 years ahead.
    TooFarAhead,
    /// Reservations were set on an algorithm other than a token bucket or leaky bucket.
    AheadOnWindow,
    /// The debt is more than [`MAX_AMOUNT`].
    DebtTooLarge,
    /// The debt would take longer than 36 years to pay.
    DebtTooSlow,
    /// A debt was set on a concurrency limit. A permit cannot be owed.
    DebtOnConcurrency,
}

impl Quota {
    /// The largest limit of a sliding window log, which stores a timestamp for each request.
    pub const MAX_LOG: u64 = 1_000_000;

    /// Creates a token bucket: tokens refill at `rate`, up to its burst.
    ///
    /// ```
    /// use tollgate_core::Quota;
    ///
    /// let quota = Quota::token_bucket("60/min burst 100".parse()?)?;
    /// assert_eq!((quota.amount(), quota.burst()), (60, 100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn token_bucket(rate: Rate) -> Result<Quota, QuotaError> {
        Quota::bucket(AlgorithmKind::TokenBucket, rate)
    }

    /// Creates a leaky bucket that works as a meter: a request that does not fit is refused.
    pub fn leaky_bucket(rate: Rate) -> Result<Quota, QuotaError> {
        Quota::bucket(AlgorithmKind::LeakyBucket, rate)
    }

    /// Creates a leaky bucket that works as a queue: a request that does not fit waits for its turn.
    pub fn leaky_queue(rate: Rate, queue: Queue) -> Result<Quota, QuotaError> {
        if rate.burst().is_some() {
            return Err(QuotaError::BurstOnQueue);
        }
        if queue.size == 0 {
            return Err(QuotaError::EmptyQueue);
        }
        if queue.size >= MAX_AMOUNT {
            return Err(QuotaError::QueueTooLong);
        }
        rate.with_burst(queue.size + 1).map_err(|_| QuotaError::TooFarAhead)?;
        let ahead_ns = queue.max_wait.map_or(MAX_SPAN_NS, |wait| saturating_ns(wait).min(MAX_SPAN_NS));
        let quota = Quota {
            kind: AlgorithmKind::LeakyQueue,
            amount: rate.count(),
            period_ns: rate.period_ns(),
            burst: 1,
            ahead_ns,
            queue_size: queue.size,
            max_debt: 0,
        };
        Ok(quota.with_capped_debt(queue.size))
    }

    /// Creates a fixed window: at most the rate's count in each window of its period, aligned to the clock.
    pub fn fixed_window(rate: Rate) -> Result<Quota, QuotaError> {
        Quota::window(AlgorithmKind::FixedWindow, rate)
    }

    /// Creates a sliding window counter: two windows, the previous one weighed by its overlap with the sliding window.
    pub fn sliding_window_counter(rate: Rate) -> Result<Quota, QuotaError> {
        Quota::window(AlgorithmKind::SlidingWindowCounter, rate)
    }

    /// Creates a sliding window log: at most the rate's count in any span of its period.
    pub fn sliding_window_log(rate: Rate) -> Result<Quota, QuotaError> {
        if rate.count() > Quota::MAX_LOG {
            return Err(QuotaError::LogTooLong);
        }
        Quota::window(AlgorithmKind::SlidingWindowLog, rate)
    }

    /// Creates a concurrency limit: at most `permits` requests in flight. With a `lease`, a permit that is neither
    /// released nor renewed within it expires.
    pub fn concurrency(permits: u64, lease: Option<Duration>) -> Result<Quota, QuotaError> {
        if permits == 0 || permits > MAX_AMOUNT {
            return Err(QuotaError::Permits);
        }
        let period_ns = lease.map_or(MAX_SPAN_NS, saturating_ns);
        if period_ns == 0 || period_ns > MAX_SPAN_NS {
            return Err(QuotaError::Lease);
        }
        let kind = AlgorithmKind::Concurrency;
        Ok(Quota { kind, amount: permits, period_ns, burst: 0, ahead_ns: 0, queue_size: 0, max_debt: 0 })
    }

    /// Lets callers of a token bucket or leaky bucket reserve tokens up to `ahead` before they are refilled: `ahead` is
    /// the longest delay of a reservation.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_core::{Bucket, BucketState, Quota, Tick};
    ///
    /// let quota = Quota::token_bucket("1/s burst 1".parse()?)?.with_reservations(Duration::from_secs(5))?;
    /// let bucket = Bucket::new(&quota, Tick::Nanosecond).expect("a token bucket is a bucket");
    /// let (mut state, now, max_wait) = (BucketState::default(), 1_000_000_000, 2_000_000_000);
    /// assert_eq!(bucket.reserve(&mut state, now, 1, max_wait).delay(), 0);
    /// assert_eq!(bucket.reserve(&mut state, now, 1, max_wait).delay(), 1_000_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_reservations(self, ahead: Duration) -> Result<Quota, QuotaError> {
        if !matches!(self.kind, AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket) {
            return Err(QuotaError::AheadOnWindow);
        }
        let ahead_ns = saturating_ns(ahead);
        let refill_ns = u128::from(self.burst) * u128::from(self.period_ns) / u128::from(self.amount);
        if refill_ns + u128::from(self.burst) + u128::from(ahead_ns) > u128::from(MAX_SPAN_NS) {
            return Err(QuotaError::TooFarAhead);
        }
        Ok(Quota { ahead_ns, ..self }.with_capped_debt(self.max_debt))
    }

    /// Sets the largest debt of a key, caused by settling above an estimate; 0 for none.
    ///
    /// The default is the burst, the window's limit or the size of the queue, as far as it is within range. So one
    /// wrong settlement takes at most one more refill to pay.
    pub fn with_max_debt(self, max_debt: u64) -> Result<Quota, QuotaError> {
        if self.kind == AlgorithmKind::Concurrency {
            return Err(QuotaError::DebtOnConcurrency);
        }
        if max_debt > MAX_AMOUNT {
            return Err(QuotaError::DebtTooLarge);
        }
        if !self.can_owe(max_debt) {
            return Err(QuotaError::DebtTooSlow);
        }
        Ok(Quota { max_debt, ..self })
    }

    /// Returns whether the largest debt is the default: what it would be without
    /// [`with_max_debt`](Quota::with_max_debt).
    #[must_use]
    pub fn has_default_max_debt(&self) -> bool {
        let default = match self.kind {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => self.burst,
            AlgorithmKind::LeakyQueue => self.queue_size,
            AlgorithmKind::Concurrency => 0,
            _ => self.amount,
        };
        self.max_debt == self.with_capped_debt(default).max_debt
    }

    /// Returns the quota with a largest debt of `max_debt`, or the largest that is within range.
    fn with_capped_debt(self, max_debt: u64) -> Quota {
        let max_debt = if self.can_owe(max_debt) { max_debt } else { self.largest_debt_in_range().min(max_debt) };
        Quota { max_debt, ..self }
    }

    /// Returns whether everything that a key can hold, plus `debt`, refills within the range of a state.
    fn can_owe(&self, debt: u64) -> bool {
        let (debt, period_ns, amount) = (u128::from(debt), u128::from(self.period_ns), u128::from(self.amount));
        let span_ns = match self.kind {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
                let tokens = u128::from(self.max_held_tokens()) + debt;
                tokens * period_ns / amount + tokens + u128::from(self.reserved_ns())
            }
            _ => debt.div_ceil(amount) * period_ns,
        };
        debt <= u128::from(MAX_AMOUNT) && span_ns <= u128::from(MAX_SPAN_NS)
    }

    /// Returns a debt that is within range, and close to the largest such debt.
    fn largest_debt_in_range(&self) -> u64 {
        (0..=MAX_AMOUNT.ilog2()).rev().fold(0, |debt, bit| {
            let more = debt | 1 << bit;
            if self.can_owe(more) { more } else { debt }
        })
    }

    /// Returns the tokens that a bucket can hold, without those that reservations take from the future.
    fn max_held_tokens(&self) -> u64 {
        if self.kind == AlgorithmKind::LeakyQueue { self.queue_size + 1 } else { self.burst }
    }

    /// Returns the longest delay of a reservation beyond the tokens that the bucket holds. For a queue this is 0: its
    /// size bounds the delay.
    fn reserved_ns(&self) -> u64 {
        if self.kind == AlgorithmKind::LeakyQueue { 0 } else { self.ahead_ns }
    }

    /// Returns a share of the quota, for an instance that counts alone. Rate, burst and permits are scaled, rounded
    /// down, and at least 1. The size of a queue is not scaled.
    #[must_use]
    pub fn share(&self, (numerator, denominator): (u32, u32)) -> Quota {
        let scaled = |amount: u64| {
            let share = u128::from(amount) * u128::from(numerator) / u128::from(denominator.max(1));
            u64::try_from(share).unwrap_or(u64::MAX).clamp(1, amount)
        };
        let share = Quota { amount: scaled(self.amount), ..*self };
        // Rate and burst are scaled alike, so tokens take as long to refill as before. If rounding makes the rate so
        // small that the refill time leaves the range, the number of tokens is reduced instead.
        let refills_in_time = |tokens: u64| {
            let refill_ns = u128::from(tokens) * u128::from(self.period_ns) / u128::from(share.amount);
            refill_ns + u128::from(tokens) + u128::from(self.ahead_ns) <= u128::from(MAX_SPAN_NS)
        };
        let share = match self.kind {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
                Quota { burst: Some(scaled(self.burst)).filter(|burst| refills_in_time(*burst)).unwrap_or(1), ..share }
            }
            AlgorithmKind::LeakyQueue if !refills_in_time(self.queue_size + 1) => Quota { queue_size: 1, ..share },
            _ => share,
        };
        let debt = if self.max_debt == 0 { 0 } else { scaled(self.max_debt) };
        share.with_capped_debt(debt)
    }

    /// Returns the quota of a bucket with at most its burst and debt; `None` if the burst is 0.
    pub(crate) fn with_smaller_burst(&self, burst: u64, max_debt: u64) -> Option<Quota> {
        let quota = Quota { burst: burst.min(self.burst), max_debt: max_debt.min(self.max_debt), ..*self };
        (quota.burst > 0).then_some(quota)
    }

    /// Returns the quota of a bucket at a part of its rate, in thousandths: with a longer period, rounded up. `None` if the
    /// burst or the debt would take too long to refill.
    pub(crate) fn at_rate_thousandths(&self, rate: u32) -> Option<Quota> {
        let period_ns = (u128::from(self.period_ns) * 1_000).div_ceil(u128::from(rate.max(1)));
        let slower = Quota { period_ns: u64::try_from(period_ns).ok()?, ..*self };
        (slower.period_ns <= MAX_SPAN_NS && slower.can_owe(0)).then(|| slower.with_capped_debt(slower.max_debt))
    }

    fn bucket(kind: AlgorithmKind, rate: Rate) -> Result<Quota, QuotaError> {
        let burst = rate.burst_or_default();
        rate.with_burst(burst).map_err(QuotaError::Rate)?;
        let (amount, period_ns) = (rate.count(), rate.period_ns());
        let quota = Quota { kind, amount, period_ns, burst, ahead_ns: 0, queue_size: 0, max_debt: 0 };
        Ok(quota.with_capped_debt(burst))
    }

    fn window(kind: AlgorithmKind, rate: Rate) -> Result<Quota, QuotaError> {
        if rate.burst().is_some() {
            return Err(QuotaError::BurstOnWindow);
        }
        let (amount, period_ns) = (rate.count(), rate.period_ns());
        let quota = Quota { kind, amount, period_ns, burst: 0, ahead_ns: 0, queue_size: 0, max_debt: 0 };
        Ok(quota.with_capped_debt(amount))
    }

    /// Returns the algorithm.
    #[must_use]
    pub const fn kind(&self) -> AlgorithmKind {
        self.kind
    }

    /// Returns the count in a period, or the number of permits.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns the period, the window or the lease, in nanoseconds.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Returns the burst of a bucket; 0 for other algorithms.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Returns the longest delay of a reservation, in nanoseconds: the `max_wait` of a queue, or the time of
    /// [`with_reservations`](Quota::with_reservations); 0 for other algorithms.
    #[must_use]
    pub const fn ahead_ns(&self) -> u64 {
        self.ahead_ns
    }

    /// Returns the size of a queue; 0 for other algorithms.
    #[must_use]
    pub const fn queue_size(&self) -> u64 {
        self.queue_size
    }

    /// Returns the largest debt of a key beyond its limit.
    #[must_use]
    pub const fn max_debt(&self) -> u64 {
        self.max_debt
    }
}

fn saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Display for AlgorithmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AlgorithmKind::TokenBucket => "token-bucket",
            AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => "leaky-bucket",
            AlgorithmKind::FixedWindow => "fixed-window",
            AlgorithmKind::SlidingWindowCounter => "sliding-window-counter",
            AlgorithmKind::SlidingWindowLog => "sliding-window-log",
            AlgorithmKind::Concurrency => "concurrency",
        })
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuotaError::Rate(error) => write!(f, "{error}"),
            QuotaError::BurstOnWindow => f.write_str(
                "only buckets have a `burst`; a window lets its whole limit pass at once anyway: remove it, or choose token-bucket",
            ),
            QuotaError::BurstOnQueue => {
                f.write_str("a queue releases one request at a time, so it has no `burst`: remove it, or remove `queue`")
            }
            QuotaError::EmptyQueue => f.write_str("a queue must have a size of at least 1"),
            QuotaError::QueueTooLong => f.write_str("a queue must have a size below 1000000000000 (10^12)"),
            QuotaError::LogTooLong => f.write_str(
                "a log stores every request, so its limit must be at most 1000000: choose sliding-window-counter for more",
            ),
            QuotaError::Permits => f.write_str("concurrency must be at least 1 and at most 1000000000000 (10^12)"),
            QuotaError::Lease => f.write_str("a lease must be longer than 0 and at most 36 years"),
            QuotaError::TooFarAhead => {
                f.write_str("burst, queue and reservations together must reach at most 36 years ahead at this rate")
            }
            QuotaError::DebtTooLarge => f.write_str("`max_debt` must be at most 1000000000000 (10^12)"),
            QuotaError::DebtTooSlow => {
                f.write_str("limit and `max_debt` together must refill within 36 years at this rate")
            }
            QuotaError::DebtOnConcurrency => {
                f.write_str("concurrency has no `max_debt`: a permit cannot be owed")
            }
            QuotaError::AheadOnWindow => f.write_str("only a token bucket or a leaky bucket can have reservations"),
        }
    }
}

impl std::error::Error for QuotaError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            QuotaError::Rate(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RateError> for QuotaError {
    fn from(error: RateError) -> QuotaError {
        QuotaError::Rate(error)
    }
}
