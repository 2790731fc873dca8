//! Token bucket, leaky bucket as meter, leaky bucket as queue: one mathematics.
//!
//! A bucket is held as the time at which it will be full again. See
//! `docs/state.md` for why that is exact and cannot overflow.

mod debt;
mod shape;
mod steps;

use crate::algorithm::{Algorithm, Charged};
use crate::decision::{Decision, Verdict};
use crate::fraction;
use crate::quota::{AlgorithmKind, Quota};
use crate::rate::MAX_AMOUNT;
use crate::tick::Tick;

pub use shape::BucketShape;
pub use steps::{AnySteps, CheckSteps, FractionSteps, WholeSteps};

/// A bucket quota compiled for one unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// What one token takes to refill: `token.ticks + token.part / den`.
    token: Span,
    den: u32,
    /// `X` up to which a request passes at once. Zero for a queue, which delays all but an idle one.
    free: Span,
    /// Nothing is admitted above this: the burst or queue, and what may be promised ahead.
    ceiling: Span,
    /// `X` is never above this: the ceiling, or all that it holds and what may be owed beyond it.
    depth: Span,
    /// How many tokens may be owed beyond what it holds, with what is promised there.
    max_debt: u64,
    /// `X` from which nothing remains: all places of a queue, the burst of the others.
    brim: Span,
    /// The largest `remaining`.
    limit: u64,
    /// One token in units of `1/den` ticks, and `2^64 / token_units`, rounded down.
    token_units: u64,
    reciprocal: u64,
    /// `2^64 / den`, rounded down.
    den_reciprocal: u64,
    /// Of a narrow bucket, in units of `1/den` ticks: the brim, and what may be used when one token more passes at
    /// once.
    brim_units: u64,
    last_units: u64,
    /// Whether every span up to the depth, and one token more, fits 64 bits in units of `1/den` ticks.
    narrow: bool,
    queues: bool,
    /// A plain bucket whose token takes whole ticks, so that no state of it has a fraction.
    is_whole: bool,
}

/// One key's bucket: when it is full again. The default is a full one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketState {
    /// Whole ticks.
    pub tat: u64,
    /// The fraction of a tick beyond `tat`, over the denominator of the bucket that wrote it.
    pub part: u32,
}

/// A length of time, `ticks + part / den` of the bucket it belongs to.
// The order of the fields is the order of the spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Whole ticks.
    pub ticks: u64,
    /// The fraction of a tick beyond them, over the bucket's denominator.
    pub part: u32,
}

impl Span {
    const ZERO: Span = Span { ticks: 0, part: 0 };

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
        let (num, den) = fraction::not_below(quota.period_ns() / tick.ns(), quota.amount());
        let token = Span { ticks: num / den, part: (num % den) as u32 };
        let mut bucket = Bucket {
            token,
            den: den as u32,
            free: Span::ZERO,
            ceiling: Span::ZERO,
            depth: Span::ZERO,
            max_debt: quota.max_debt(),
            brim: Span::ZERO,
            limit: quota.burst(),
            token_units: num,
            reciprocal: reciprocal_of(num),
            den_reciprocal: reciprocal_of(den),
            brim_units: 0,
            last_units: 0,
            narrow: false,
            queues,
            is_whole: false,
        };
        let ahead = Span { ticks: quota.ahead_ns() / tick.ns(), part: 0 };
        if queues {
            // A unit may join while its own wait is at most `ahead` and a place is free. The request
            // that departs at once has a place too, until the next one can depart.
            let longest = bucket.plus(ahead, token);
            bucket.brim = bucket.times(quota.queue_size()).min(longest);
            bucket.limit = bucket.tokens_wide(bucket.brim);
            // One place more than requests may take: the shape that shared values have always been
            // written under, so that programs which gave that place away read and write the same ones.
            bucket.ceiling = bucket.times(quota.queue_size() + 1).min(longest);
        } else {
            bucket.free = bucket.times(quota.burst());
            bucket.brim = bucket.free;
            bucket.ceiling = bucket.plus(bucket.free, ahead);
        }
        bucket.depth = bucket.ceiling.max(bucket.indebted(bucket.max_debt));
        // No span of a bucket is longer than its depth, so a sum of two fits 64 bits.
        bucket.narrow = bucket.units(bucket.depth.max(token)) < 1 << 63;
        if bucket.narrow {
            bucket.brim_units = bucket.units(bucket.brim) as u64;
            bucket.last_units = (bucket.units(bucket.free) as u64).saturating_sub(num);
        }
        bucket.is_whole = den == 1 && !queues && bucket.narrow;
        Some(bucket)
    }

    /// Like [`Algorithm::check`], for a caller that would wait up to `patience`
    /// ticks: an allowed request may then carry a delay even without a queue,
    /// as far as the quota lets tokens be promised ahead.
    pub fn reserve(&self, state: &mut BucketState, now: u64, cost: u64, patience: u64) -> Decision {
        if cost == 0 {
            return self.look(state, now, 0);
        }
        let (decision, next) = self.decide_within(*state, now, cost, patience);
        *state = next;
        decision
    }

    /// Reads a state that another bucket wrote: as whole used tokens, rounded
    /// up, and no more than this bucket can hold; and what is owed beyond them,
    /// likewise, no more than may be owed here.
    #[must_use]
    pub fn adopt(&self, writer: &Bucket, state: BucketState, now: u64) -> BucketState {
        if self.is_like(writer) {
            return state;
        }
        let found = writer.used(state, now);
        let used = writer.tokens_up(found.min(writer.ceiling));
        let owed = writer.tokens_up(writer.minus(found, writer.ceiling)).min(u128::from(self.max_debt));
        // What is promised ahead can be more tokens than any burst, so `times` would not do.
        let token_units = u128::from(self.token_units);
        let carried = used.saturating_mul(token_units).min(self.units(self.ceiling)) + owed * token_units;
        let den = u128::from(self.den);
        state_at(now, Span { ticks: (carried / den) as u64, part: (carried % den) as u32 })
    }

    /// Whether it differs from `other` in nothing that a state depends on, only
    /// in what may be owed or in a queue's last place: then either reads what
    /// the other wrote as it is.
    #[must_use]
    pub fn is_like(&self, other: &Bucket) -> bool {
        (self.token, self.den, self.queues) == (other.token, other.den, other.queues)
            && (self.free, self.ceiling) == (other.free, other.ceiling)
    }

    /// How many tokens of this bucket are used, rounded up. What is owed beyond all that it admits is not among them.
    #[must_use]
    pub fn used_tokens(&self, state: BucketState, now: u64) -> u64 {
        let used = self.used(state, now).min(self.ceiling);
        u64::try_from(self.tokens_up(used)).unwrap_or(u64::MAX)
    }

    fn tokens_up(&self, span: Span) -> u128 {
        self.units(span).div_ceil(u128::from(self.token_units))
    }

    /// `X` up to where what has happened already is charged without owing it: it
    /// may take a queue's last place, which no request is given.
    fn full(&self) -> Span {
        if self.queues { self.ceiling } else { self.brim }
    }

    /// How many tokens that is.
    fn most_held(&self) -> u64 {
        if self.queues { self.tokens_wide(self.ceiling) } else { self.limit }
    }

    /// How many whole tokens of a charge time has not refilled yet. A receipt
    /// is worth no more once another quota has taken over the key.
    #[must_use]
    pub fn unrefilled(&self, charged: &Charged, now: u64) -> u64 {
        let elapsed = Span { ticks: now.saturating_sub(charged.at), part: 0 };
        let worth = self.times(charged.cost.min(self.limit));
        self.tokens_wide(self.minus(worth, elapsed))
    }

    /// When a promised place departs, rounded up to a whole tick.
    #[must_use]
    pub fn departs_at(&self, charged: &Charged) -> u64 {
        self.departure(charged).ceil()
    }

    fn departure(&self, charged: &Charged) -> Span {
        let full_at = Span { ticks: charged.mark, part: charged.part };
        let free = if self.queues { self.times(charged.cost.min(self.limit)) } else { self.free };
        self.minus(full_at, free)
    }

    /// What becomes of a promise when `cost` before it is withdrawn.
    #[must_use]
    pub fn moved_up(&self, promise: &Charged, cost: u64) -> Charged {
        let state = self.earlier(BucketState { tat: promise.mark, part: promise.part }, cost);
        let moved = Charged { mark: state.tat, part: state.part, ..*promise };
        Charged { at: self.departure(&moved).ticks, ..moved }
    }

    fn earlier(&self, state: BucketState, cost: u64) -> BucketState {
        let full_at = Span { ticks: state.tat, part: state.part };
        let full_at = self.minus(full_at, self.times(cost.min(self.limit)));
        BucketState { tat: full_at.ticks, part: full_at.part }
    }

    /// The time when a bucket that `state` describes is full again, for whoever does not know its quota.
    #[must_use]
    #[inline]
    pub fn full_at(state: BucketState) -> u64 {
        state.tat.saturating_add(u64::from(state.part > 0))
    }

    /// A check of `cost`, which is not 0, in steps.
    #[inline(always)]
    #[must_use]
    pub fn steps(&self, cost: u64) -> AnySteps<'_> {
        AnySteps { bucket: self, cost }
    }

    /// A check of a cost of 1 in steps, if the bucket queues nothing and its
    /// token takes whole ticks, as with most rates (100/s, 60/min, 1000/day):
    /// the same decisions without fractions, at half the instructions.
    #[inline(always)]
    #[must_use]
    pub fn whole_steps(&self) -> Option<WholeSteps<'_>> {
        if self.is_whole { Some(WholeSteps { bucket: self }) } else { None }
    }

    /// The same for a bucket whose token takes any time: without the price of other costs.
    #[inline(always)]
    #[must_use]
    pub fn fraction_steps(&self) -> Option<FractionSteps<'_>> {
        if self.narrow && !self.queues { Some(FractionSteps { bucket: self }) } else { None }
    }

    /// The decision and the state after it. The state differs if something was
    /// charged, or if it had to follow a clock that went back.
    #[inline]
    fn decide(&self, state: BucketState, now: u64, cost: u64) -> (Decision, BucketState) {
        match self.whole_steps() {
            Some(steps) if cost == 1 => self.decide_in(steps, state, now, cost),
            _ => match self.fraction_steps() {
                Some(steps) if cost == 1 => self.decide_in(steps, state, now, cost),
                _ => self.decide_in(self.steps(cost), state, now, cost),
            },
        }
    }

    #[inline]
    fn decide_in(&self, steps: impl CheckSteps, state: BucketState, now: u64, cost: u64) -> (Decision, BucketState) {
        if let Some(next) = steps.pass(state, now) {
            return (steps.passed(next, now), next);
        }
        match steps.refused(state, now) {
            Some(decision) => (decision, state),
            None => self.decide_within(state, now, cost, self.patience()),
        }
    }

    /// Every case, for a caller that would wait `patience`.
    #[inline(never)]
    fn decide_within(&self, state: BucketState, now: u64, cost: u64, patience: u64) -> (Decision, BucketState) {
        let found = self.used(state, now);
        // Beyond the depth lies only what a clock that went back has left there.
        let used = found.min(self.depth);
        let kept = if found > self.depth { state_at(now, used) } else { state };
        let Some(price) = self.price(cost) else {
            return (self.answer(Verdict::Impossible, used), kept);
        };
        let after = self.plus(used, price);
        let delay = if self.queues { used } else { self.minus(after, self.free) };
        let too_late = self.minus(delay, Span { ticks: patience, part: 0 });
        let too_much = self.minus(after, if self.queues { self.brim } else { self.ceiling });
        match too_late.max(too_much).ceil() {
            0 => (self.answer(Verdict::Allowed { delay: delay.ceil() }, after), state_at(now, after)),
            wait => (self.answer(Verdict::Refused { retry_after: Some(wait) }, used), kept),
        }
    }

    /// How long a plain check waits: in a queue as long as it lets one, else not at all.
    fn patience(&self) -> u64 {
        if self.queues { u64::MAX } else { 0 }
    }

    /// The answer where `used`, at most the depth, is used.
    #[inline(always)]
    fn answer(&self, verdict: Verdict, used: Span) -> Decision {
        let (remaining, next_after) = if self.narrow { self.remaining(used) } else { self.remaining_wide(used) };
        Decision { verdict, limit: self.limit, remaining, next_after, reset_after: used.ceil() }
    }

    /// What remains, and the time until `used` has shrunk so far that one more fits.
    #[inline(always)]
    fn remaining(&self, used: Span) -> (u64, u64) {
        let used_units = self.narrow_units(used);
        let remaining = self.whole_tokens(self.brim_units.saturating_sub(used_units));
        if remaining >= self.limit {
            return (remaining, 0);
        }
        // Neither sum overflows: each is at most the depth and a token. The difference is positive,
        // because one token more than remains does not fit.
        let missing = used_units + (remaining + 1) * self.token_units - self.brim_units;
        (remaining, self.ticks_up(missing))
    }

    #[inline(never)]
    fn remaining_wide(&self, used: Span) -> (u64, u64) {
        let remaining = self.tokens_wide(self.minus(self.brim, used));
        if remaining >= self.limit {
            return (remaining, 0);
        }
        (remaining, self.minus(self.plus(used, self.times(remaining + 1)), self.brim).ceil())
    }

    #[inline(always)]
    fn used(&self, state: BucketState, now: u64) -> Span {
        if state.tat < now { Span::ZERO } else { Span { ticks: state.tat - now, part: state.part } }
    }

    /// What `cost` takes to refill; `None` if it can never be held.
    #[inline(always)]
    fn price(&self, cost: u64) -> Option<Span> {
        if cost == 1 {
            return Some(self.token);
        }
        if cost <= self.limit { Some(self.times(cost)) } else { None }
    }

    /// `n` tokens, for `n ≤ 2·10^12` (a burst and a debt) and where that lies within 2^61 ticks.
    #[inline]
    fn times(&self, n: u64) -> Span {
        debug_assert!(n <= 2 * MAX_AMOUNT);
        // n * part < 2 * 10^12 * 2^20 < 2^61
        let parts = n * u64::from(self.token.part);
        let den = u64::from(self.den);
        Span { ticks: n.saturating_mul(self.token.ticks) + parts / den, part: (parts % den) as u32 }
    }

    #[inline(always)]
    fn plus(&self, a: Span, b: Span) -> Span {
        let part = a.part + b.part;
        let carry = part >= self.den;
        // Beyond the depth a sum may saturate: a clock that went back leaves any `a` there.
        let ticks = a.ticks.saturating_add(b.ticks).saturating_add(u64::from(carry));
        Span { ticks, part: if carry { part - self.den } else { part } }
    }

    /// `a - b`, or zero.
    #[inline(always)]
    fn minus(&self, a: Span, b: Span) -> Span {
        if a <= b {
            return Span::ZERO;
        }
        let borrow = a.part < b.part;
        Span {
            ticks: a.ticks - b.ticks - u64::from(borrow),
            part: if borrow { a.part + self.den - b.part } else { a.part - b.part },
        }
    }

    /// A span in units of `1/den` ticks.
    fn units(&self, span: Span) -> u128 {
        u128::from(span.ticks) * u128::from(self.den) + u128::from(span.part)
    }

    /// Whole tokens in a span of at most the depth.
    #[inline(always)]
    fn tokens(&self, span: Span) -> u64 {
        if !self.narrow {
            return self.tokens_wide(span);
        }
        self.whole_tokens(self.narrow_units(span))
    }

    /// A span of at most the depth of a narrow bucket, in units of `1/den` ticks.
    #[inline(always)]
    fn narrow_units(&self, span: Span) -> u64 {
        span.ticks * u64::from(self.den) + u64::from(span.part)
    }

    /// Whole tokens in a narrow bucket's units of `1/den` ticks.
    #[inline(always)]
    fn whole_tokens(&self, units: u64) -> u64 {
        divided(units, self.token_units, self.reciprocal)
    }

    /// A narrow bucket's units of `1/den` ticks as ticks, rounded up.
    #[inline(always)]
    fn ticks_up(&self, units: u64) -> u64 {
        let den = u64::from(self.den);
        divided(units + (den - 1), den, self.den_reciprocal)
    }

    #[inline(never)]
    fn tokens_wide(&self, span: Span) -> u64 {
        (self.units(span) / u128::from(self.token_units)) as u64
    }
}

/// `2^64 / divisor`, rounded down, or the nearest that fits.
fn reciprocal_of(divisor: u64) -> u64 {
    u64::try_from((1_u128 << 64) / u128::from(divisor)).unwrap_or(u64::MAX)
}

/// `units / divisor` by the reciprocal of the divisor.
#[inline(always)]
fn divided(units: u64, divisor: u64, reciprocal: u64) -> u64 {
    // The quotient by the rounded-down reciprocal is right or one too small,
    // because it loses at most units / 2^64 < 1.
    let low = ((u128::from(units) * u128::from(reciprocal)) >> 64) as u64;
    low + u64::from(units - low * divisor >= divisor)
}

#[inline(always)]
fn state_at(now: u64, used: Span) -> BucketState {
    BucketState { tat: now.saturating_add(used.ticks), part: used.part }
}

impl Algorithm for Bucket {
    type State = BucketState;

    #[inline]
    fn look(&self, state: &BucketState, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            let used = self.used(*state, now).min(self.depth);
            return self.answer(Verdict::Allowed { delay: 0 }, used);
        }
        self.decide(*state, now, cost).0
    }

    #[inline]
    fn check(&self, state: &mut BucketState, now: u64, cost: u64) -> Decision {
        if cost == 0 {
            return self.look(state, now, 0);
        }
        let (decision, next) = self.decide(*state, now, cost);
        *state = next;
        decision
    }

    fn check_within(&self, state: &mut BucketState, now: u64, cost: u64, patience: u64) -> Decision {
        self.reserve(state, now, cost, patience)
    }

    fn force(&self, state: &mut BucketState, now: u64, cost: u64) -> u64 {
        let used = self.used(*state, now).min(self.depth);
        let full = self.full();
        let room = self.tokens(self.minus(full, used));
        if cost == 0 {
            return 0;
        }
        let after = if cost <= room { self.plus(used, self.times(cost)) } else { used.max(full) };
        *state = state_at(now, after);
        cost.saturating_sub(room)
    }

    fn owe(&self, state: &mut BucketState, now: u64, cost: u64) -> u64 {
        self.owe_at_most(state, now, cost, self.max_debt)
    }

    fn give_back(&self, state: &mut BucketState, now: u64, charged: &Charged, amount: u64) {
        let used = self.used(*state, now);
        let worth = self.times(amount.min(charged.cost).min(self.most_held()));
        let elapsed = Span { ticks: now.saturating_sub(charged.at), part: 0 };
        // Where nothing can be promised, what lies beyond the burst is owed.
        let promises = self.ceiling > self.free;
        let is_ahead = now < charged.at || promises && used > self.free;
        let given = if !is_ahead {
            // What time has refilled since is not given twice. That the state is still the one
            // this charge left does not prove that nothing came after it: what was given back
            // and charged since can add up to the same.
            self.minus(worth, elapsed)
        } else if (state.tat, state.part) == (charged.mark, charged.part) && (self.queues || amount >= charged.cost) {
            // The last place promised can be undone. A bucket's only as a whole: the rest would
            // still depart later, and the state not know it.
            worth
        } else {
            // Somebody was promised a place behind it. Giving this one back would give that
            // place twice: to them, and to whoever comes next. Only what lies beyond all
            // that can be promised is surely owed, and is paid with it.
            self.minus(worth, elapsed).min(self.minus(used, self.ceiling))
        };
        if given > Span::ZERO {
            *state = state_at(now, self.minus(used, given));
        }
    }

    fn withdraw(&self, state: &mut BucketState, last: &Charged, cost: u64) -> bool {
        // Whoever was promised a place after `last` keeps it, so there is none to withdraw before it.
        if (state.tat, state.part) != (last.mark, last.part) {
            return false;
        }
        *state = self.earlier(*state, cost);
        true
    }

    #[inline]
    fn charged(&self, state: &BucketState, now: u64, cost: u64) -> Charged {
        let used = self.used(*state, now).min(self.ceiling);
        let free = if self.queues { self.times(cost.min(self.limit)) } else { self.free };
        // A promised one departs within the tick that begins there; counting from its
        // beginning gives back a part of a tick too little, never too much.
        Charged { at: now.saturating_add(self.minus(used, free).ticks), cost, mark: state.tat, part: state.part }
    }

    fn untouched_at(&self, state: &BucketState) -> u64 {
        Bucket::full_at(*state)
    }

    fn refresh(&self, state: &mut BucketState, now: u64) {
        if self.used(*state, now) > self.depth {
            *state = state_at(now, self.depth);
        }
    }

    fn carried(&self, used: u64, now: u64) -> BucketState {
        // A queue's state holds one more than the queue takes.
        let used = used.min(self.most_held());
        if used == 0 { BucketState::default() } else { state_at(now, self.times(used)) }
    }
}
