//! What a slot decided, worked out again from what its keys looked like before.
//!
//! A server says how many passed and shows each key once; the answer to each
//! request follows from that, by the same functions that a store in memory uses.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{Algorithm, Charged, Decision, Quota, Verdict};

use crate::call::{Compiled, SlotCharge, Target, Terms, View};

/// The answer to one request, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// The answer to each charge.
    pub(crate) decisions: SmallVec<[Decision; 4]>,
    /// What each charge left. One that was not made has a cost of 0.
    pub(crate) charged: SmallVec<[Charged; 4]>,
}

/// The answers to `times` requests alike, of which the first `passed` passed.
/// `None` if what came back does not belong to these charges.
pub(crate) fn replay(
    charges: &[SlotCharge],
    times: u32,
    now: u64,
    passed: u32,
    views: &[View],
) -> Option<Vec<Replayed>> {
    let mut keys = Keys::seen(charges, views)?;
    let mut answers: Vec<Replayed> = (0..passed.min(times)).map(|_| keys.pass(charges, now)).collect();
    if passed < times {
        // Nothing changes any more: one refusal is like the other.
        let refused = keys.refuse(charges, now);
        answers.extend((passed..times).map(|_| refused.clone()));
    }
    Some(answers)
}

/// The keys of some charges, as they are at a point of the replay.
#[derive(Clone)]
struct Keys(SmallVec<[SeenKey; 4]>);

#[derive(Clone)]
struct SeenKey {
    key: Arc<[u8]>,
    /// Under which quota it was read or written last.
    terms: Arc<Terms>,
    view: View,
}

impl Keys {
    fn seen(charges: &[SlotCharge], views: &[View]) -> Option<Keys> {
        if charges.len() != views.len() {
            return None;
        }
        let mut keys = Keys(SmallVec::new());
        for (charge, view) in charges.iter().zip(views) {
            if !fits(&charge.target.terms, view) {
                return None;
            }
            let Target { key, terms } = charge.target.clone();
            // A key that is charged twice is looked at once, so that the second meets the first.
            if keys.find(&key, view).is_none() {
                keys.0.push(SeenKey { key, terms, view: *view });
            }
        }
        Some(keys)
    }

    fn find(&mut self, key: &[u8], like: &View) -> Option<&mut SeenKey> {
        let is_like = |seen: &SeenKey| std::mem::discriminant(&seen.view) == std::mem::discriminant(like);
        self.0.iter_mut().find(|seen| *seen.key == *key && is_like(seen))
    }

    /// One request whose charges are made.
    fn pass(&mut self, charges: &[SlotCharge], now: u64) -> Replayed {
        let mut decisions: SmallVec<[Decision; 4]> = smallvec![NOTHING; charges.len()];
        let mut charged: SmallVec<[Charged; 4]> = smallvec![Charged::default(); charges.len()];
        // A peek says what remained before.
        for (at, charge) in charges.iter().enumerate().filter(|(_, charge)| !charge.is_made()) {
            decisions[at] = self.look(charge, now);
        }
        let made = charges.iter().enumerate().filter(|(_, charge)| charge.is_made());
        // Shadows come last, each on its own.
        for (at, charge) in made.chain(charges.iter().enumerate().filter(|(_, charge)| charge.is_shadow())) {
            let (decision, left) = self.check(charge, now);
            decisions[at] = decision;
            if decision.is_allowed() {
                charged[at] = left;
            }
        }
        Replayed { decisions, charged }
    }

    /// One request that is refused.
    fn refuse(&mut self, charges: &[SlotCharge], now: u64) -> Replayed {
        let mut decisions: SmallVec<[Decision; 4]> = charges.iter().map(|charge| self.look(charge, now)).collect();
        let each_fits = charges.iter().zip(&decisions).all(|(charge, answer)| !charge.binds() || answer.is_allowed());
        if each_fits {
            self.refuse_second(charges, &mut decisions, now);
        }
        Replayed { decisions, charged: smallvec![Charged::default(); charges.len()] }
    }

    /// Each fits by itself, but not two of one key together: the second of them is the one refused.
    fn refuse_second(&self, charges: &[SlotCharge], decisions: &mut [Decision], now: u64) {
        let mut tried = self.clone();
        for (at, charge) in charges.iter().enumerate().filter(|(_, charge)| charge.is_made()) {
            let (decision, _) = tried.check(charge, now);
            if !decision.is_allowed() {
                decisions[at] = decision;
                return;
            }
        }
    }

    /// What the answer would be, and what remains without it.
    fn look(&mut self, charge: &SlotCharge, now: u64) -> Decision {
        let Some(view) = self.read(charge, now) else { return NOTHING };
        let answer = look(&charge.target.terms, &view, now, charge.cost);
        if charge.cost == 0 || !answer.is_allowed() {
            return answer;
        }
        Decision { verdict: answer.verdict, ..look(&charge.target.terms, &view, now, 0) }
    }

    fn check(&mut self, charge: &SlotCharge, now: u64) -> (Decision, Charged) {
        let Some(mut view) = self.read(charge, now) else { return (NOTHING, Charged::default()) };
        let terms = &charge.target.terms;
        let (decision, charged) = check(terms, &mut view, now, charge.cost);
        if let Some(seen) = self.find(&charge.target.key, &view) {
            (seen.view, seen.terms) = (view, Arc::clone(terms));
        }
        (decision, charged)
    }

    /// A key under the quota of a charge.
    fn read(&mut self, charge: &SlotCharge, now: u64) -> Option<View> {
        let terms = &charge.target.terms;
        let seen = self.0.iter().find(|seen| seen.key == charge.target.key && fits(terms, &seen.view))?;
        match (&seen.view, &seen.terms.algorithm, &terms.algorithm) {
            (View::Bucket(state), Compiled::Bucket(writer), Compiled::Bucket(own)) if writer != own => {
                Some(View::Bucket(own.adopt(writer, *state, now)))
            }
            _ => Some(seen.view),
        }
    }
}

/// Stands where nothing can be said.
const NOTHING: Decision = Decision { verdict: Verdict::NoRoom, limit: 0, remaining: 0, next_after: 0, reset_after: 0 };

fn fits(terms: &Terms, view: &View) -> bool {
    matches!(
        (&terms.algorithm, view),
        (Compiled::Bucket(_), View::Bucket(_))
            | (Compiled::FixedWindow(_), View::Window(_))
            | (Compiled::SlidingCounter(_), View::Counter(_))
            | (Compiled::SlidingLog(_), View::Log { .. })
            | (Compiled::Concurrency(_), View::Leases { .. })
    )
}

fn look(terms: &Terms, view: &View, now: u64, cost: u64) -> Decision {
    match (&terms.algorithm, view) {
        (Compiled::Bucket(bucket), View::Bucket(state)) => bucket.look(state, now, cost),
        (Compiled::FixedWindow(window), View::Window(state)) => window.look(state, now, cost),
        (Compiled::SlidingCounter(counter), View::Counter(state)) => counter.look(state, now, cost),
        (_, View::Log { .. } | View::Leases { .. }) => check(terms, &mut view.clone(), now, cost).0,
        _ => NOTHING,
    }
}

fn check(terms: &Terms, view: &mut View, now: u64, cost: u64) -> (Decision, Charged) {
    match (&terms.algorithm, view) {
        (Compiled::Bucket(bucket), View::Bucket(state)) => noted(bucket, state, now, cost),
        (Compiled::FixedWindow(window), View::Window(state)) => noted(window, state, now, cost),
        (Compiled::SlidingCounter(counter), View::Counter(state)) => noted(counter, state, now, cost),
        (_, View::Log { used, oldest, newest, fits_at }) => {
            let mut log = LogView { used: *used, oldest: *oldest, newest: *newest, fits_at: *fits_at };
            let checked = log.check(&terms.quota, now, cost);
            (*used, *oldest, *newest) = (log.used, log.oldest, log.newest);
            checked
        }
        (_, View::Leases { used, until, last_id }) => {
            let mut leases = LeasesView { used: *used, until: *until, last_id: *last_id };
            let checked = leases.check(&terms.quota, now, cost);
            (*used, *until, *last_id) = (leases.used, leases.until, leases.last_id);
            checked
        }
        _ => (NOTHING, Charged::default()),
    }
}

fn noted<A: Algorithm>(algorithm: &A, state: &mut A::State, now: u64, cost: u64) -> (Decision, Charged) {
    let decision = algorithm.check(state, now, cost);
    (decision, algorithm.charged(state, now, cost))
}

fn ticks(quota: &Quota) -> u64 {
    quota.period_ns().div_ceil(Terms::TICK.ns())
}

/// What the answers of a log need of it.
struct LogView {
    used: u64,
    oldest: u64,
    newest: u64,
    fits_at: u64,
}

impl LogView {
    fn check(&mut self, quota: &Quota, now: u64, cost: u64) -> (Decision, Charged) {
        let limit = quota.amount();
        let verdict = if cost > limit {
            Verdict::Impossible
        } else if cost == 0 || self.used.saturating_add(cost) <= limit {
            Verdict::Allowed { delay: 0 }
        } else {
            Verdict::Refused { retry_after: Some(self.fits_at.saturating_sub(now)) }
        };
        if cost > 0 && matches!(verdict, Verdict::Allowed { .. }) {
            self.oldest = if self.used == 0 { now } else { self.oldest };
            self.newest = self.newest.max(now);
            self.used += cost;
        }
        let until_left = |at: u64| if self.used == 0 { 0 } else { (at + ticks(quota)).saturating_sub(now) };
        let decision = Decision {
            verdict,
            limit,
            remaining: limit.saturating_sub(self.used),
            next_after: until_left(self.oldest),
            reset_after: until_left(self.newest),
        };
        (decision, Charged { at: now, cost, mark: self.newest, part: 0 })
    }
}

/// What the answers about permits need of who holds them.
struct LeasesView {
    used: u64,
    until: u64,
    last_id: u64,
}

impl LeasesView {
    fn check(&mut self, quota: &Quota, now: u64, cost: u64) -> (Decision, Charged) {
        let permits = quota.amount();
        let verdict = if cost > permits {
            Verdict::Impossible
        } else if cost == 0 || self.used.saturating_add(cost) <= permits {
            Verdict::Allowed { delay: 0 }
        } else {
            Verdict::Refused { retry_after: None }
        };
        let lease_ends = now.saturating_add(ticks(quota));
        if cost > 0 && matches!(verdict, Verdict::Allowed { .. }) {
            self.used += cost;
            self.until = self.until.max(lease_ends);
            self.last_id = if now > self.last_id { now } else { self.last_id.wrapping_add(1) };
        }
        let reset_after = self.until.min(lease_ends).saturating_sub(now);
        let remaining = permits.saturating_sub(self.used);
        let decision = Decision { verdict, limit: permits, remaining, next_after: 0, reset_after };
        (decision, Charged { at: now, cost, mark: self.last_id, part: 0 })
    }
}
