//! Token bucket, leaky bucket as meter and leaky bucket as queue, with the same arithmetic.
//!
//! The state of a bucket is the theoretical arrival time (TAT) of GCRA: the time at which the bucket will be full
//! again, with nothing used. `docs/state.md` explains why this is exact and cannot overflow.
//!
//! The terms of this module, for an emission interval `T`. All are spans of time, as fractions of ticks with a common
//! denominator, unless stated otherwise.
//!
//! - `emission_interval`: `T`, the time in which one token refills.
//! - `backlog`: `max(TAT − now, 0)`, the used amount as a span. One used token is a backlog of `T`.
//! - `burst_tolerance`: the largest backlog after a request that passes at once, `burst · T`. (Where GCRA compares
//!   before it adds the cost, its tolerance `τ` is this minus `T`.) Zero for a queue.
//! - `capacity`: the backlog at which nothing remains: `burst · T`. For a queue its size times `T`, but at most
//!   `max_wait + T`.
//! - `ceiling`: the largest backlog that reservations reach: the capacity plus the longest reservation. For a queue, one
//!   position more than its size times `T`, but at most `max_wait + T`. Requests reach only its capacity; settled costs
//!   may take the rest.
//! - `max_backlog`: the largest valid backlog, with debt: the ceiling, or the backlog at the largest debt if that is
//!   more.
//! - `limit`: the largest `remaining`, which is the capacity in tokens.
//! - `part`: the numerator of the fraction of a tick; the denominator is `den`.
//! - units: a span as an integer, in units of `1/den` ticks.
//!
//! So `burst_tolerance ≤ capacity ≤ ceiling ≤ max_backlog`.
//!
//! A *reservation* is an allowed request with a delay. It *departs* when the delay is over: from then on its caller
//! may proceed.

mod debt;
mod kernel;
mod shape;

use crate::algorithm::{Algorithm, Charged};
use crate::decision::{ChargeVerdict, Decision};
use crate::fraction;
use crate::quota::{AlgorithmKind, Quota};
use crate::rate::MAX_AMOUNT;
use crate::tick::Tick;

pub use kernel::{AnyCostKernel, CheckKernel, FractionKernel, WholeTickKernel};
pub use shape::BucketShape;

/// A bucket quota compiled for one unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// `T`, the time in which one token refills: `ticks + part / den`.
    emission_interval: TickSpan,
    den: u32,
    /// The largest backlog after a request that passes at once. Zero for a queue, which delays every request unless it
    /// is idle.
    burst_tolerance: TickSpan,
    /// The largest backlog that reservations reach: the burst plus the longest reservation. For a queue its size plus
    /// one position, but at most `max_wait + T`.
    ceiling: TickSpan,
    /// The largest valid backlog: the larger of the ceiling and the backlog at the largest debt.
    max_backlog: TickSpan,
    /// The largest debt in tokens, beyond the capacity (a queue: beyond the ceiling). Reservations beyond the capacity
    /// count as debt, because a state does not distinguish them.
    max_debt: u64,
    /// The backlog from which nothing remains: that of the burst; for a queue that of its size, but at most
    /// `max_wait + T`.
    capacity: TickSpan,
    /// The largest `remaining`.
    limit: u64,
    /// `T` in units of `1/den` ticks, and `2^64 / interval_units`, rounded down.
    interval_units: u64,
    reciprocal: u64,
    /// `2^64 / den`, rounded down.
    den_reciprocal: u64,
    /// If `fits_u64`: the capacity, and the largest backlog at which a request of cost 1 passes at once, in units of
    /// `1/den` ticks.
    capacity_units: u64,
    max_passing_units: u64,
    /// Whether the units of every span up to `max_backlog + T` fit in 64 bits. If not, they are computed as `u128`.
    fits_u64: bool,
    /// Whether this is a leaky queue, which delays requests instead of refusing them.
    queues: bool,
    /// Whether this is a bucket without a queue whose `T` is a whole number of ticks, so that none of its states has a
    /// fraction.
    is_whole: bool,
}

/// The state of one key's bucket: its TAT, the time when it is full again. The default is a full bucket: nothing is
/// used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketState {
    /// The whole ticks of the TAT.
    pub tat: u64,
    /// The numerator of the fraction of a tick beyond `tat`. The denominator is that of the bucket that wrote the
    /// state.
    pub part: u32,
}

/// A span of time of `ticks + part / den`, with the denominator of its bucket.
// The derived order relies on the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TickSpan {
    /// Whole ticks.
    pub ticks: u64,
    /// The numerator of the fraction of a tick beyond `ticks`. The denominator is that of the bucket.
    pub part: u32,
}

impl TickSpan {
    const ZERO: TickSpan = TickSpan { ticks: 0, part: 0 };

    #[inline(always)]
    fn ceil(self) -> u64 {
        self.ticks.saturating_add(u64::from(self.part > 0))
    }
}

impl Bucket {
    /// Compiles a token bucket, leaky bucket or leaky queue; `None` for other quotas.
    #[must_use]
    pub fn new(quota: &Quota, tick: Tick) -> Option<Bucket> {
        let queues = match quota.kind() {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => false,
            AlgorithmKind::LeakyQueue => true,
            _ => return None,
        };
        let (num, den) = fraction::smallest_not_below(quota.period_ns() / tick.ns(), quota.amount());
        let emission_interval = TickSpan { ticks: num / den, part: (num % den) as u32 };
        let mut bucket = Bucket {
            emission_interval,
            den: den as u32,
            burst_tolerance: TickSpan::ZERO,
            ceiling: TickSpan::ZERO,
            max_backlog: TickSpan::ZERO,
            max_debt: quota.max_debt(),
            capacity: TickSpan::ZERO,
            limit: quota.burst(),
            interval_units: num,
            reciprocal: reciprocal_of(num),
            den_reciprocal: reciprocal_of(den),
            capacity_units: 0,
            max_passing_units: 0,
            fits_u64: false,
            queues,
            is_whole: false,
        };
        // `ahead_ns` is the longest reservation, or for a queue the longest delay.
        let max_delay = TickSpan { ticks: quota.ahead_ns() / tick.ns(), part: 0 };
        if queues {
            // A request may join if its own delay is at most `max_delay` and the queue has a free position. A request
            // without a delay takes a position as well, until the next request can depart `T` later. So a request that
            // waits `max_delay` makes the backlog `max_delay + T`.
            let longest = bucket.plus(max_delay, emission_interval);
            bucket.capacity = bucket.intervals(quota.queue_size()).min(longest);
            bucket.limit = bucket.tokens_u128(bucket.capacity);
            // One position more than the capacity. Earlier versions gave it to requests, and values on Redis are written
            // under this ceiling; both versions must read the same values.
            bucket.ceiling = bucket.intervals(quota.queue_size() + 1).min(longest);
        } else {
            bucket.burst_tolerance = bucket.intervals(quota.burst());
            bucket.capacity = bucket.burst_tolerance;
            bucket.ceiling = bucket.plus(bucket.burst_tolerance, max_delay);
        }
        bucket.max_backlog = bucket.ceiling.max(bucket.backlog_with_debt(bucket.max_debt));
        // No span of a bucket is longer than `max_backlog`, so the sum of two fits in 64 bits.
        bucket.fits_u64 = bucket.units(bucket.max_backlog.max(emission_interval)) < 1 << 63;
        if bucket.fits_u64 {
            bucket.capacity_units = bucket.units(bucket.capacity) as u64;
            bucket.max_passing_units = (bucket.units(bucket.burst_tolerance) as u64).saturating_sub(num);
        }
        bucket.is_whole = den == 1 && !queues && bucket.fits_u64;
        Some(bucket)
    }

    /// Like [`Algorithm::check`], for a caller that can wait up to `max_wait` ticks: an allowed request may have a
    /// delay even without a queue, as far as the quota allows reservations.
    pub fn reserve(&self, state: &mut BucketState, now: u64, cost: u64, max_wait: u64) -> Decision {
        if cost == 0 {
            return self.peek(state, now, 0);
        }
        let (decision, next) = self.decide_within(*state, now, cost, max_wait);
        *state = next;
        decision
    }

    /// Converts a state that another bucket wrote. It keeps the number of used tokens, rounded up and capped at this
    /// bucket's ceiling, and adds the debt in tokens, rounded up and capped at this bucket's `max_debt`.
    ///
    /// (A count of another algorithm is converted by [`Algorithm::state_with_used`].)
    #[must_use]
    pub fn convert(&self, writer_quota: &Bucket, state: BucketState, now: u64) -> BucketState {
        if self.has_same_states_as(writer_quota) {
            return state;
        }
        let backlog = writer_quota.backlog(state, now);
        let used = writer_quota.tokens_ceil(backlog.min(writer_quota.ceiling));
        let owed =
            writer_quota.tokens_ceil(writer_quota.minus(backlog, writer_quota.ceiling)).min(u128::from(self.max_debt));
        // In 128 bits: with reservations `used` can exceed the number of tokens that `intervals` accepts.
        let interval_units = u128::from(self.interval_units);
        let units = used.saturating_mul(interval_units).min(self.units(self.ceiling)) + owed * interval_units;
        let den = u128::from(self.den);
        state_at(now, TickSpan { ticks: (units / den) as u64, part: (units % den) as u32 })
    }

    /// Returns whether both buckets read each other's states unchanged: they differ at most in the largest debt or in
    /// the last position of a queue.
    #[must_use]
    pub fn has_same_states_as(&self, other: &Bucket) -> bool {
        (self.emission_interval, self.den, self.queues) == (other.emission_interval, other.den, other.queues)
            && (self.burst_tolerance, self.ceiling) == (other.burst_tolerance, other.ceiling)
    }

    /// Returns the number of used tokens, rounded up. Debt beyond the ceiling is not included.
    #[must_use]
    pub fn used_tokens(&self, state: BucketState, now: u64) -> u64 {
        let backlog = self.backlog(state, now).min(self.ceiling);
        u64::try_from(self.tokens_ceil(backlog)).unwrap_or(u64::MAX)
    }

    /// Returns the tokens in a span, rounded up.
    fn tokens_ceil(&self, span: TickSpan) -> u128 {
        self.units(span).div_ceil(u128::from(self.interval_units))
    }

    /// Returns the largest backlog without debt, for costs that have already occurred. They may take the last position
    /// of a queue, which no request gets.
    fn max_backlog_without_debt(&self) -> TickSpan {
        if self.queues { self.ceiling } else { self.capacity }
    }

    /// Returns the largest number of used tokens without debt.
    fn max_held_tokens(&self) -> u64 {
        if self.queues { self.tokens_u128(self.ceiling) } else { self.limit }
    }

    /// Returns how many whole tokens of a charge have not been refilled by time yet. A receipt refunds at most that
    /// much after another quota has written the key.
    #[must_use]
    pub fn unrefilled(&self, charged: &Charged, now: u64) -> u64 {
        let elapsed = TickSpan { ticks: now.saturating_sub(charged.at), part: 0 };
        let charged_span = self.intervals(charged.cost.min(self.limit));
        self.tokens_u128(self.minus(charged_span, elapsed))
    }

    /// Returns the time when a reservation departs (its delay is over), rounded up to a whole tick.
    #[must_use]
    pub fn departs_at(&self, charged: &Charged) -> u64 {
        self.departure(charged).ceil()
    }

    /// Returns the time when a reservation departs: its TAT minus the burst tolerance, or for a queue its TAT minus the
    /// refill time of its own cost.
    fn departure(&self, charged: &Charged) -> TickSpan {
        let tat = TickSpan { ticks: charged.mark, part: charged.part };
        let tolerance = if self.queues { self.intervals(charged.cost.min(self.limit)) } else { self.burst_tolerance };
        self.minus(tat, tolerance)
    }

    /// Returns the new record of a reservation after an earlier reservation of `cost` was withdrawn: it departs sooner,
    /// by the refill time of `cost`.
    #[must_use]
    pub fn advance_reservation(&self, reservation: &Charged, cost: u64) -> Charged {
        let state = self.subtract_cost(BucketState { tat: reservation.mark, part: reservation.part }, cost);
        let advanced = Charged { mark: state.tat, part: state.part, ..*reservation };
        Charged { at: self.departure(&advanced).ticks, ..advanced }
    }

    /// Returns a state with the TAT earlier by the refill time of `cost`.
    fn subtract_cost(&self, state: BucketState, cost: u64) -> BucketState {
        let tat = TickSpan { ticks: state.tat, part: state.part };
        let earlier = self.minus(tat, self.intervals(cost.min(self.limit)));
        BucketState { tat: earlier.ticks, part: earlier.part }
    }

    /// Returns the time when the bucket of a state is full again: its TAT, rounded up. It does not need the quota.
    #[must_use]
    #[inline]
    pub fn full_at(state: BucketState) -> u64 {
        state.tat.saturating_add(u64::from(state.part > 0))
    }

    /// Returns the kernel for checks of `cost`, which must not be 0.
    #[inline(always)]
    #[must_use]
    pub fn kernel(&self, cost: u64) -> AnyCostKernel<'_> {
        AnyCostKernel { bucket: self, cost }
    }

    /// Returns the kernel for checks of cost 1, if the bucket has no queue and its emission interval is a whole number
    /// of ticks, as with most rates (100/s, 60/min, 1000/day). The decisions are the same, computed without fractions
    /// in half the instructions.
    #[inline(always)]
    #[must_use]
    pub fn whole_tick_kernel(&self) -> Option<WholeTickKernel<'_>> {
        if self.is_whole { Some(WholeTickKernel { bucket: self }) } else { None }
    }

    /// Returns the kernel for checks of cost 1, if the bucket has no queue and its spans fit in 64 bits. The emission
    /// interval may have a fraction of a tick. It avoids the arithmetic of other costs.
    #[inline(always)]
    #[must_use]
    pub fn fraction_kernel(&self) -> Option<FractionKernel<'_>> {
        if self.fits_u64 && !self.queues { Some(FractionKernel { bucket: self }) } else { None }
    }

    /// Returns the decision and the next state. The state changes if something was charged, or if the clock went back.
    #[inline]
    fn decide(&self, state: BucketState, now: u64, cost: u64) -> (Decision, BucketState) {
        match self.whole_tick_kernel() {
            Some(kernel) if cost == 1 => self.decide_with(kernel, state, now, cost),
            _ => match self.fraction_kernel() {
                Some(kernel) if cost == 1 => self.decide_with(kernel, state, now, cost),
                _ => self.decide_with(self.kernel(cost), state, now, cost),
            },
        }
    }

    #[inline]
    fn decide_with(
        &self,
        kernel: impl CheckKernel,
        state: BucketState,
        now: u64,
        cost: u64,
    ) -> (Decision, BucketState) {
        if let Some(next) = kernel.next_state(state, now) {
            return (kernel.allowed_decision(next, now), next);
        }
        match kernel.refusal(state, now) {
            Some(decision) => (decision, state),
            None => self.decide_within(state, now, cost, self.max_wait_of_check()),
        }
    }

    /// Decides in all cases, also those that the kernels leave out, for a caller that can wait `max_wait`.
    #[inline(never)]
    fn decide_within(&self, state: BucketState, now: u64, cost: u64, max_wait: u64) -> (Decision, BucketState) {
        let stored_backlog = self.backlog(state, now);
        // Only a clock that went back can leave a longer backlog than the longest valid one.
        let backlog = stored_backlog.min(self.max_backlog);
        let uncharged = if stored_backlog > self.max_backlog { state_at(now, backlog) } else { state };
        let Some(cost_span) = self.cost_span(cost) else {
            return (self.decision(ChargeVerdict::Impossible, backlog), uncharged);
        };
        let after = self.plus(backlog, cost_span);
        let delay = if self.queues { backlog } else { self.minus(after, self.burst_tolerance) };
        // The span by which the delay exceeds the longest wait, and the span by which the backlog exceeds its maximum.
        let excess_delay = self.minus(delay, TickSpan { ticks: max_wait, part: 0 });
        let excess_backlog = self.minus(after, if self.queues { self.capacity } else { self.ceiling });
        match excess_delay.max(excess_backlog).ceil() {
            0 => (self.decision(ChargeVerdict::Allowed { delay: delay.ceil() }, after), state_at(now, after)),
            wait => (self.decision(ChargeVerdict::Refused { retry_after: Some(wait) }, backlog), uncharged),
        }
    }

    /// Returns the longest wait of a plain check: unlimited in a queue, else 0.
    fn max_wait_of_check(&self) -> u64 {
        if self.queues { u64::MAX } else { 0 }
    }

    /// Returns the decision at a backlog of at most `max_backlog`.
    #[inline(always)]
    fn decision(&self, verdict: ChargeVerdict, backlog: TickSpan) -> Decision {
        let (remaining, next_after) =
            if self.fits_u64 { self.remaining(backlog) } else { self.remaining_u128(backlog) };
        Decision { verdict, limit: self.limit, remaining, next_after, reset_after: backlog.ceil() }
    }

    /// Returns the remaining tokens, and the time until one more remains.
    #[inline(always)]
    fn remaining(&self, backlog: TickSpan) -> (u64, u64) {
        let backlog_units = self.units_u64(backlog);
        let remaining = self.tokens_in_units(self.capacity_units.saturating_sub(backlog_units));
        if remaining >= self.limit {
            return (remaining, 0);
        }
        // Neither sum overflows: each is at most `max_backlog + T`. The difference is positive, because one token more
        // than remains does not fit.
        let missing = backlog_units + (remaining + 1) * self.interval_units - self.capacity_units;
        (remaining, self.ticks_ceil(missing))
    }

    /// Returns the same, computed with `u128`.
    #[inline(never)]
    fn remaining_u128(&self, backlog: TickSpan) -> (u64, u64) {
        let remaining = self.tokens_u128(self.minus(self.capacity, backlog));
        if remaining >= self.limit {
            return (remaining, 0);
        }
        (remaining, self.minus(self.plus(backlog, self.intervals(remaining + 1)), self.capacity).ceil())
    }

    /// Returns `max(TAT − now, 0)`.
    #[inline(always)]
    fn backlog(&self, state: BucketState, now: u64) -> TickSpan {
        if state.tat < now { TickSpan::ZERO } else { TickSpan { ticks: state.tat - now, part: state.part } }
    }

    /// Returns the time in which `cost` refills; `None` if the bucket can never hold it.
    #[inline(always)]
    fn cost_span(&self, cost: u64) -> Option<TickSpan> {
        if cost == 1 {
            return Some(self.emission_interval);
        }
        if cost <= self.limit { Some(self.intervals(cost)) } else { None }
    }

    /// Returns `n · T`, for `n ≤ 2·10^12` (a burst and a debt) and a result within 2^61 ticks.
    #[inline]
    fn intervals(&self, n: u64) -> TickSpan {
        debug_assert!(n <= 2 * MAX_AMOUNT);
        // n * part < 2 * 10^12 * 2^20 < 2^61
        let parts = n * u64::from(self.emission_interval.part);
        let den = u64::from(self.den);
        TickSpan { ticks: n.saturating_mul(self.emission_interval.ticks) + parts / den, part: (parts % den) as u32 }
    }

    #[inline(always)]
    fn plus(&self, a: TickSpan, b: TickSpan) -> TickSpan {
        let part = a.part + b.part;
        let carry = part >= self.den;
        // A sum beyond `max_backlog` may saturate: after the clock went back, `a` can have any value.
        let ticks = a.ticks.saturating_add(b.ticks).saturating_add(u64::from(carry));
        TickSpan { ticks, part: if carry { part - self.den } else { part } }
    }

    /// Returns `a - b`, or zero if that is negative.
    #[inline(always)]
    fn minus(&self, a: TickSpan, b: TickSpan) -> TickSpan {
        if a <= b {
            return TickSpan::ZERO;
        }
        let borrow = a.part < b.part;
        TickSpan {
            ticks: a.ticks - b.ticks - u64::from(borrow),
            part: if borrow { a.part + self.den - b.part } else { a.part - b.part },
        }
    }

    /// Returns a span in units of `1/den` ticks.
    fn units(&self, span: TickSpan) -> u128 {
        u128::from(span.ticks) * u128::from(self.den) + u128::from(span.part)
    }

    /// Returns the whole tokens in a span of at most `max_backlog`.
    #[inline(always)]
    fn tokens(&self, span: TickSpan) -> u64 {
        if !self.fits_u64 {
            return self.tokens_u128(span);
        }
        self.tokens_in_units(self.units_u64(span))
    }

    /// Returns a span of at most `max_backlog` in units of `1/den` ticks, if `fits_u64`.
    #[inline(always)]
    fn units_u64(&self, span: TickSpan) -> u64 {
        span.ticks * u64::from(self.den) + u64::from(span.part)
    }

    /// Returns the whole tokens in `units` of `1/den` ticks, if `fits_u64`.
    #[inline(always)]
    fn tokens_in_units(&self, units: u64) -> u64 {
        div_by_reciprocal(units, self.interval_units, self.reciprocal)
    }

    /// Converts `units` of `1/den` ticks to ticks, rounded up, if `fits_u64`.
    #[inline(always)]
    fn ticks_ceil(&self, units: u64) -> u64 {
        let den = u64::from(self.den);
        div_by_reciprocal(units + (den - 1), den, self.den_reciprocal)
    }

    /// Returns the whole tokens in a span, computed with `u128`.
    #[inline(never)]
    fn tokens_u128(&self, span: TickSpan) -> u64 {
        (self.units(span) / u128::from(self.interval_units)) as u64
    }
}

/// Returns `2^64 / divisor`, rounded down, or the nearest value that fits.
fn reciprocal_of(divisor: u64) -> u64 {
    u64::try_from((1_u128 << 64) / u128::from(divisor)).unwrap_or(u64::MAX)
}

/// Returns `units / divisor`, computed with the reciprocal of the divisor.
#[inline(always)]
fn div_by_reciprocal(units: u64, divisor: u64, reciprocal: u64) -> u64 {
    // The quotient by the rounded-down reciprocal is exact or one too small, because it loses at most units / 2^64 < 1.
    let low = ((u128::from(units) * u128::from(reciprocal)) >> 64) as u64;
    low + u64::from(units - low * divisor >= divisor)
}

/// Returns the state with the given backlog: `TAT = now + backlog`.
#[inline(always)]
fn state_at(now: u64, backlog: TickSpan) -> BucketState {
    BucketState { tat: now.saturating_add(backlog.ticks), part: backlog.part }
}

impl Algorithm for Bucket {
    type State = BucketState;

    #[inline]
    fn peek(&self, state: &BucketState, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            let backlog = self.backlog(*state, now).min(self.max_backlog);
            return self.decision(ChargeVerdict::Allowed { delay: 0 }, backlog);
        }
        self.decide(*state, now, cost).0
    }

    #[inline]
    fn check(&self, state: &mut BucketState, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            return self.peek(state, now, 0);
        }
        let (decision, next) = self.decide(*state, now, cost);
        *state = next;
        decision
    }

    fn check_within(&self, state: &mut BucketState, now: u64, cost: u64, max_wait: u64) -> Decision {
        self.reserve(state, now, cost, max_wait)
    }

    // Charges up to the capacity (a queue: up to the ceiling), and never into debt.
    fn force(&self, state: &mut BucketState, now: u64, cost: u64) -> u64 {
        let backlog = self.backlog(*state, now).min(self.max_backlog);
        let max = self.max_backlog_without_debt();
        let free_tokens = self.tokens(self.minus(max, backlog));
        if cost == 0 {
            return 0;
        }
        let after = if cost <= free_tokens { self.plus(backlog, self.intervals(cost)) } else { backlog.max(max) };
        *state = state_at(now, after);
        cost.saturating_sub(free_tokens)
    }

    // Charges beyond the capacity as well: the excess is debt, up to `max_debt`.
    fn owe(&self, state: &mut BucketState, now: u64, cost: u64) -> u64 {
        self.owe_at_most(state, now, cost, self.max_debt)
    }

    fn refund(&self, state: &mut BucketState, now: u64, charged: &Charged, amount: u64) {
        let backlog = self.backlog(*state, now);
        let amount_span = self.intervals(amount.min(charged.cost).min(self.max_held_tokens()));
        let elapsed = TickSpan { ticks: now.saturating_sub(charged.at), part: 0 };
        // Whether the charge, or one after it, is a reservation that has not departed. In a bucket without reservations
        // everything beyond the burst is debt.
        let has_reservations = self.ceiling > self.burst_tolerance;
        let is_reserved = now < charged.at || has_reservations && backlog > self.burst_tolerance;
        let refunded = if !is_reserved {
            // Tokens that time has refilled since the charge are not refunded again. (Comparing the state with the one
            // after the charge would not show that nothing happened since: charges and refunds can cancel out.)
            self.minus(amount_span, elapsed)
        } else if (state.tat, state.part) == (charged.mark, charged.part) && (self.queues || amount >= charged.cost) {
            // The last reservation can be undone. In a bucket without a queue only as a whole: its caller waits until
            // the departure that it was given, and a partial refund would move the TAT before that departure.
            amount_span
        } else {
            // Another caller has a reservation after this one. A refund would grant the same tokens twice: to that
            // caller and to the next one. Only the backlog beyond the ceiling is certainly debt, and is reduced.
            self.minus(amount_span, elapsed).min(self.minus(backlog, self.ceiling))
        };
        if refunded > TickSpan::ZERO {
            *state = state_at(now, self.minus(backlog, refunded));
        }
    }

    fn withdraw(&self, state: &mut BucketState, last: &Charged, cost: u64) -> bool {
        // If the state differs, another caller has a reservation after `last`. That one keeps its departure, so nothing
        // before it can be withdrawn.
        if (state.tat, state.part) != (last.mark, last.part) {
            return false;
        }
        *state = self.subtract_cost(*state, cost);
        true
    }

    #[inline]
    fn charged(&self, state: &BucketState, now: u64, cost: u64) -> Charged {
        let backlog = self.backlog(*state, now).min(self.ceiling);
        let tolerance = if self.queues { self.intervals(cost.min(self.limit)) } else { self.burst_tolerance };
        // `at` is the departure of a reservation, and `now` for other charges. A reservation departs within the tick that
        // begins at this time. Counting the elapsed time from the start of
        // the tick refunds up to a tick too little, never too much.
        Charged {
            at: now.saturating_add(self.minus(backlog, tolerance).ticks),
            cost,
            mark: state.tat,
            part: state.part,
        }
    }

    fn expires_at(&self, state: &BucketState) -> u64 {
        Bucket::full_at(*state)
    }

    // Clamps a TAT that lies too far ahead because the clock went back.
    fn refresh(&self, state: &mut BucketState, now: u64) {
        if self.backlog(*state, now) > self.max_backlog {
            *state = state_at(now, self.max_backlog);
        }
    }

    fn state_with_used(&self, used: u64, now: u64) -> BucketState {
        // The state of a queue can hold one token more than requests can use.
        let used = used.min(self.max_held_tokens());
        if used == 0 { BucketState::default() } else { state_at(now, self.intervals(used)) }
    }
}
