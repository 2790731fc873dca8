use std::fmt;
use std::time::Duration;

use crate::rate::{MAX_AMOUNT, MAX_SPAN_NS, Rate, RateError};

/// A limit under an algorithm. What can be built can be computed exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    kind: AlgorithmKind,
    /// For concurrency: so many, for as long as a lease lasts.
    amount: u64,
    period_ns: u64,
    burst: u64,
    /// How far ahead a bucket may promise: a queue's places or a reservation's horizon.
    ahead_ns: u64,
    queue_size: u64,
    /// How much may be owed beyond what the limit holds, by settling above an estimate.
    max_debt: u64,
}

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlgorithmKind {
    /// Refills steadily up to a burst. The default choice.
    TokenBucket,
    /// The same mathematics told the other way round: it drains steadily.
    LeakyBucket,
    /// Delays requests so that they depart at a steady rate.
    LeakyQueue,
    /// Counts in windows aligned to the clock. Lets up to twice the limit pass across a boundary.
    FixedWindow,
    /// Weighs the previous window by how much of it is still in sight.
    SlidingWindowCounter,
    /// Remembers every request: exact, and the largest state.
    SlidingWindowLog,
    /// Limits how many are under way at once.
    Concurrency,
}

/// How a leaky bucket queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// How many requests it holds: those that wait, and the one that departed
    /// last, until the next can depart. Of 15 that come at once, a queue of 10
    /// lets the first depart, holds 9 and refuses 5.
    pub size: u64,
    /// The longest that one may wait; `None` leaves it to the size.
    pub max_wait: Option<Duration>,
}

/// Why a quota cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// The rate's burst is out of range.
    Rate(RateError),
    /// A window has no burst: it lets its limit pass at once already.
    BurstOnWindow,
    /// A queue releases one at a time, so it has no burst.
    BurstOnQueue,
    /// A queue without places.
    EmptyQueue,
    /// A queue of more than [`MAX_AMOUNT`] places.
    QueueTooLong,
    /// A log of more than [`Quota::MAX_LOG`] entries.
    LogTooLong,
    /// Concurrency of 0 or of more than [`MAX_AMOUNT`].
    Permits,
    /// A lease of 0 or of more than 36 years.
    Lease,
    /// What may be promised ahead, with the burst, lies more than 36 years ahead.
    TooFarAhead,
    /// Only token and leaky buckets can promise tokens ahead of time.
    AheadOnWindow,
    /// A debt of more than [`MAX_AMOUNT`].
    DebtTooLarge,
    /// The debt would take longer than 36 years to pay.
    DebtTooSlow,
    /// A permit that is not there cannot be owed.
    DebtOnConcurrency,
}

impl Quota {
    /// A log remembers every request, so its limit is bounded.
    pub const MAX_LOG: u64 = 1_000_000;

    /// Tokens that refill at `rate`, up to its burst.
    pub fn token_bucket(rate: Rate) -> Result<Quota, QuotaError> {
        Quota::bucket(AlgorithmKind::TokenBucket, rate)
    }

    /// A leaky bucket as a meter: what does not fit is refused.
    pub fn leaky_bucket(rate: Rate) -> Result<Quota, QuotaError> {
        Quota::bucket(AlgorithmKind::LeakyBucket, rate)
    }

    /// A leaky bucket as a queue: what does not fit waits its turn.
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
        Ok(quota.owing_at_most(queue.size))
    }

    /// At most the rate's count in each window of its period, aligned to the clock.
    pub fn fixed_window(rate: Rate) -> Result<Quota, QuotaError> {
        Quota::window(AlgorithmKind::FixedWindow, rate)
    }

    /// Two windows, the previous one weighed by its overlap.
    pub fn sliding_window_counter(rate: Rate) -> Result<Quota, QuotaError> {
        Quota::window(AlgorithmKind::SlidingWindowCounter, rate)
    }

    /// At most the rate's count in any span of its period.
    pub fn sliding_window_log(rate: Rate) -> Result<Quota, QuotaError> {
        if rate.count() > Quota::MAX_LOG {
            return Err(QuotaError::LogTooLong);
        }
        Quota::window(AlgorithmKind::SlidingWindowLog, rate)
    }

    /// At most `permits` under way at once. A holder that does not let go
    /// within `lease`, if there is one, is taken for dead.
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

    /// Lets a token or leaky bucket promise tokens up to `ahead` before they
    /// are there: callers that can wait reserve them.
    pub fn with_reservations(self, ahead: Duration) -> Result<Quota, QuotaError> {
        if !matches!(self.kind, AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket) {
            return Err(QuotaError::AheadOnWindow);
        }
        let ahead_ns = saturating_ns(ahead);
        let refill_ns = u128::from(self.burst) * u128::from(self.period_ns) / u128::from(self.amount);
        if refill_ns + u128::from(self.burst) + u128::from(ahead_ns) > u128::from(MAX_SPAN_NS) {
            return Err(QuotaError::TooFarAhead);
        }
        Ok(Quota { ahead_ns, ..self }.owing_at_most(self.max_debt))
    }

    /// Lets a key owe up to `max_debt` more than its limit holds, by settling
    /// above an estimate; 0 for none. Without this it is the burst, the
    /// window's limit or the places of a queue, as far as that is within range:
    /// one mistaken settlement then takes one more refill to pay, and no longer.
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

    /// Whether it may owe what it would without [`with_max_debt`](Quota::with_max_debt).
    #[must_use]
    pub fn owes_by_default(&self) -> bool {
        let default = match self.kind {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => self.burst,
            AlgorithmKind::LeakyQueue => self.queue_size,
            AlgorithmKind::Concurrency => 0,
            _ => self.amount,
        };
        self.max_debt == self.owing_at_most(default).max_debt
    }

    /// With a debt of `max_debt`, or of as much as lies within range.
    fn owing_at_most(self, max_debt: u64) -> Quota {
        let max_debt = if self.can_owe(max_debt) { max_debt } else { self.longest_debt().min(max_debt) };
        Quota { max_debt, ..self }
    }

    /// Whether all that a key can hold and so much debt come back within the range of a state.
    fn can_owe(&self, debt: u64) -> bool {
        let (debt, period_ns, amount) = (u128::from(debt), u128::from(self.period_ns), u128::from(self.amount));
        let span_ns = match self.kind {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
                let tokens = u128::from(self.held_tokens()) + debt;
                tokens * period_ns / amount + tokens + u128::from(self.reserved_ns())
            }
            _ => debt.div_ceil(amount) * period_ns,
        };
        debt <= u128::from(MAX_AMOUNT) && span_ns <= u128::from(MAX_SPAN_NS)
    }

    /// No more than what lies within range, and near to it.
    fn longest_debt(&self) -> u64 {
        (0..=MAX_AMOUNT.ilog2()).rev().fold(0, |debt, bit| {
            let more = debt | 1 << bit;
            if self.can_owe(more) { more } else { debt }
        })
    }

    /// What a bucket can hold, apart from what it promises for a time ahead.
    fn held_tokens(&self) -> u64 {
        if self.kind == AlgorithmKind::LeakyQueue { self.queue_size + 1 } else { self.burst }
    }

    /// What a bucket promises for a time ahead. The time of a queue is bounded by its places.
    fn reserved_ns(&self) -> u64 {
        if self.kind == AlgorithmKind::LeakyQueue { 0 } else { self.ahead_ns }
    }

    /// A share of it, for an instance that counts on its own: rate, burst and
    /// permits scaled, rounded down, at least 1. Places in a queue stay as many.
    #[must_use]
    pub fn share(&self, (numerator, denominator): (u32, u32)) -> Quota {
        let scaled = |amount: u64| {
            let share = u128::from(amount) * u128::from(numerator) / u128::from(denominator.max(1));
            u64::try_from(share).unwrap_or(u64::MAX).clamp(1, amount)
        };
        let share = Quota { amount: scaled(self.amount), ..*self };
        // Scaled alike, tokens take as long to come back as before. Rounded down to a rate so much
        // smaller that it is beyond all bounds, the number of tokens gives way.
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
        share.owing_at_most(debt)
    }

    fn bucket(kind: AlgorithmKind, rate: Rate) -> Result<Quota, QuotaError> {
        let burst = rate.burst_or_default();
        rate.with_burst(burst).map_err(QuotaError::Rate)?;
        let (amount, period_ns) = (rate.count(), rate.period_ns());
        let quota = Quota { kind, amount, period_ns, burst, ahead_ns: 0, queue_size: 0, max_debt: 0 };
        Ok(quota.owing_at_most(burst))
    }

    fn window(kind: AlgorithmKind, rate: Rate) -> Result<Quota, QuotaError> {
        if rate.burst().is_some() {
            return Err(QuotaError::BurstOnWindow);
        }
        let (amount, period_ns) = (rate.count(), rate.period_ns());
        let quota = Quota { kind, amount, period_ns, burst: 0, ahead_ns: 0, queue_size: 0, max_debt: 0 };
        Ok(quota.owing_at_most(amount))
    }

    /// Which algorithm.
    #[must_use]
    pub const fn kind(&self) -> AlgorithmKind {
        self.kind
    }

    /// How many in a period, or how many permits.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// The period, the window or the lease, in nanoseconds.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// A bucket's burst; 0 for the others.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// How far ahead a bucket may promise, in nanoseconds.
    #[must_use]
    pub const fn ahead_ns(&self) -> u64 {
        self.ahead_ns
    }

    /// How many places a queue has; 0 for the others.
    #[must_use]
    pub const fn queue_size(&self) -> u64 {
        self.queue_size
    }

    /// How much a key may owe beyond what its limit holds.
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
                "`burst` goes with buckets only; a window lets its whole limit pass at once already: leave it out, or choose token-bucket",
            ),
            QuotaError::BurstOnQueue => {
                f.write_str("a queue releases one at a time, so it has no `burst`: leave it out, or leave out `queue`")
            }
            QuotaError::EmptyQueue => f.write_str("a queue must have at least 1 place"),
            QuotaError::QueueTooLong => f.write_str("a queue must have fewer than 1000000000000 (10^12) places"),
            QuotaError::LogTooLong => f.write_str(
                "a log remembers every request, so its limit must be at most 1000000: choose sliding-window-counter for more",
            ),
            QuotaError::Permits => f.write_str("concurrency must be at least 1 and at most 1000000000000 (10^12)"),
            QuotaError::Lease => f.write_str("a lease must be longer than 0 and at most 36 years"),
            QuotaError::TooFarAhead => {
                f.write_str("burst, queue and reservations together must lie within 36 years at this rate")
            }
            QuotaError::DebtTooLarge => f.write_str("`max_debt` must be at most 1000000000000 (10^12)"),
            QuotaError::DebtTooSlow => {
                f.write_str("limit and `max_debt` together must come back within 36 years at this rate")
            }
            QuotaError::DebtOnConcurrency => {
                f.write_str("concurrency has no `max_debt`: a permit that is not there cannot be owed")
            }
            QuotaError::AheadOnWindow => f.write_str("only a token bucket or a leaky bucket can promise tokens ahead of time"),
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
