//! Simple reference implementations of the algorithms.

use num_bigint::BigInt;
use num_rational::BigRational;
use tollgate_core::{ChargeVerdict, Decision, Quota, Tick};

pub(crate) fn whole(n: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(n))
}

/// Converts a fraction that is known to fit.
pub(crate) fn to_u64(n: &BigRational) -> u64 {
    assert!(n.is_integer(), "{n} is not whole");
    u64::try_from(n.to_integer()).unwrap()
}

fn not_negative(n: BigRational) -> BigRational {
    n.max(whole(0))
}

/// Tokens refill a bucket and are taken out of it. Reservations make its level negative.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    pub(crate) tokens_per_tick: BigRational,
    pub(crate) burst: BigRational,
    /// The longest wait, in ticks.
    pub(crate) ahead: BigRational,
    pub(crate) level: BigRational,
    pub(crate) at: u64,
}

impl TokenBucket {
    pub(crate) fn full(quota: &Quota, tick: Tick, at: u64) -> TokenBucket {
        TokenBucket {
            tokens_per_tick: whole(quota.amount()) / whole(quota.period_ns() / tick.ns()),
            burst: whole(quota.burst()),
            ahead: whole(quota.ahead_ns() / tick.ns()),
            level: whole(quota.burst()),
            at,
        }
    }

    pub(crate) fn advance(&mut self, now: u64) {
        let dripped = whole(now - self.at) * &self.tokens_per_tick;
        self.level = (&self.level + dripped).min(self.burst.clone());
        self.at = now;
    }

    /// Requests tokens for a caller that can wait `max_wait`.
    pub(crate) fn request(&mut self, now: u64, cost: u64, max_wait: u64) -> Decision {
        self.advance(now);
        let delay = not_negative(whole(cost) - &self.level) / &self.tokens_per_tick;
        let longest = whole(max_wait).min(self.ahead.clone());
        let verdict = if cost == 0 {
            ChargeVerdict::Allowed { delay: 0 }
        } else if whole(cost) > self.burst {
            ChargeVerdict::Impossible
        } else if delay <= longest {
            self.level -= whole(cost);
            ChargeVerdict::Allowed { delay: to_u64(&delay.ceil()) }
        } else {
            ChargeVerdict::Refused { retry_after: Some(to_u64(&(delay - longest).ceil())) }
        };
        self.answer(verdict)
    }

    fn answer(&self, verdict: ChargeVerdict) -> Decision {
        let remaining = not_negative(self.level.floor());
        let next = if remaining == self.burst { whole(0) } else { &remaining + whole(1) - &self.level };
        Decision {
            verdict,
            limit: to_u64(&self.burst),
            remaining: to_u64(&remaining),
            next_after: to_u64(&(next / &self.tokens_per_tick).ceil()),
            reset_after: to_u64(&((&self.burst - &self.level) / &self.tokens_per_tick).ceil()),
        }
    }

    /// Another bucket takes over: used tokens are carried over, rounded up, capped at what it can hold.
    pub(crate) fn taken_over_by(&self, next: &TokenBucket, now: u64) -> TokenBucket {
        let mut old = self.clone();
        old.advance(now);
        let used = (&old.burst - &old.level).ceil();
        let most = &next.burst + &next.ahead * &next.tokens_per_tick;
        TokenBucket { level: &next.burst - used.min(most), at: now, ..next.clone() }
    }
}

/// Units queue for slots that are one token apart.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) token: BigRational,
    places: u64,
    longest: Option<BigRational>,
    /// The granted slots, oldest first.
    pub(crate) slots: Vec<BigRational>,
}

impl Line {
    pub(crate) fn empty(quota: &Quota, tick: Tick) -> Line {
        let unbounded = quota.ahead_ns() >= tollgate_core::MAX_SPAN_NS;
        Line {
            token: whole(quota.period_ns() / tick.ns()) / whole(quota.amount()),
            places: quota.queue_size(),
            longest: (!unbounded).then(|| whole(quota.ahead_ns() / tick.ns())),
            slots: Vec::new(),
        }
    }

    fn next_slot(&self, now: u64) -> BigRational {
        self.slots.last().map_or(whole(now), |last| (last + &self.token).max(whole(now)))
    }

    fn may_take(&self, slot: &BigRational, now: u64) -> bool {
        // A unit keeps its position until the next one can depart.
        let taken = self.slots.iter().filter(|slot| *slot + &self.token > whole(now)).count() as u64;
        let wait = slot - whole(now);
        taken < self.places && self.longest.as_ref().is_none_or(|longest| wait <= *longest)
    }

    /// Whether this number of units can all join now; returns the slot of the first.
    fn join(&self, now: u64, units: u64) -> Option<Line> {
        let mut line = self.clone();
        for _ in 0..units {
            let slot = line.next_slot(now);
            if !line.may_take(&slot, now) {
                return None;
            }
            line.slots.push(slot);
        }
        Some(line)
    }

    /// Returns how many single units could still join.
    pub(crate) fn remaining(&self, now: u64) -> u64 {
        let mut line = self.clone();
        let mut units = 0;
        while let Some(longer) = line.join(now, 1) {
            line = longer;
            units += 1;
        }
        units
    }

    pub(crate) fn request(&mut self, now: u64, cost: u64) -> Option<u64> {
        let delay = self.next_slot(now) - whole(now);
        let joined = self.join(now, cost)?;
        *self = joined;
        Some(to_u64(&delay.ceil()))
    }

    pub(crate) fn is_possible(&self, cost: u64) -> bool {
        Line { slots: Vec::new(), ..self.clone() }.join(0, cost).is_some()
    }

    pub(crate) fn reset_after(&self, now: u64) -> u64 {
        let idle_at = self.slots.last().map_or(whole(0), |last| last + &self.token);
        to_u64(&not_negative(idle_at - whole(now)).ceil())
    }
}

/// All charges, as (time, cost).
#[derive(Clone, Debug, Default)]
pub(crate) struct Charges(pub(crate) Vec<(u64, u64)>);

impl Charges {
    /// Returns the sum of charges from `from` on, before `to`.
    fn within(&self, from: u128, to: u128) -> u128 {
        let inside = self.0.iter().filter(|(at, _)| (from..to).contains(&u128::from(*at)));
        inside.map(|(_, cost)| u128::from(*cost)).sum()
    }

    /// Returns the usage of a fixed window at `now`.
    pub(crate) fn in_window(&self, now: u64, window: u64) -> BigRational {
        let index = u128::from(now / window);
        let window = u128::from(window);
        BigRational::from_integer(BigInt::from(self.within(index * window, (index + 1) * window)))
    }

    /// Returns the usage at `now` of two windows, of which the previous one slides out.
    pub(crate) fn in_two_windows(&self, now: u64, window: u64) -> BigRational {
        let (index, into) = (now / window, now % window);
        let start = u128::from(index) * u128::from(window);
        let end = start + u128::from(window);
        let previous = if index == 0 { 0 } else { self.within(start - u128::from(window), start) };
        let in_sight = BigRational::new(BigInt::from(window - into), BigInt::from(window));
        BigRational::from_integer(BigInt::from(previous)) * in_sight
            + BigRational::from_integer(BigInt::from(self.within(start, end)))
    }

    /// Returns the usage at `now` of the window that ends there.
    pub(crate) fn in_trailing(&self, now: u64, window: u64) -> BigRational {
        let end = u128::from(now) + 1;
        BigRational::from_integer(BigInt::from(self.within(end.saturating_sub(u128::from(window)), end)))
    }
}
