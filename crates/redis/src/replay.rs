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

#[cfg(test)]
mod tests {
    use tollgate_core::Rate;
    use tollgate_store::{KeyedCharge, LimitOptions, ManualClock, MemoryOptions, MemoryStore, Mode, Store};

    use super::*;
    use crate::call::{Answer, Call, Line};
    use crate::sim::shard::Shard;
    use crate::store::random::Random;

    const NOW_US: u64 = 1_700_000_000_000_000;

    fn quota(random: &mut Random) -> Quota {
        let period = std::time::Duration::from_millis(u64::from(1 + random.below(100)));
        let rate = Rate::new(1 + u64::from(random.below(9)), period).unwrap();
        match random.below(5) {
            0 => Quota::token_bucket(rate),
            1 => Quota::fixed_window(rate),
            2 => Quota::sliding_window_counter(rate),
            3 => Quota::sliding_window_log(rate),
            _ => Quota::concurrency(rate.count(), Some(period)),
        }
        .unwrap()
    }

    fn charge(random: &mut Random, targets: &[Target]) -> SlotCharge {
        let mode = [Mode::Enforce, Mode::Enforce, Mode::Guard, Mode::Shadow, Mode::Watch][random.below(5) as usize];
        let target = targets[random.below(targets.len() as u32) as usize].clone();
        SlotCharge { target, cost: u64::from(random.below(4)), mode }
    }

    /// The same requests go to a model of a server, several at a time, and to
    /// a store in memory, one after the other. What is replayed from the views
    /// of the one is what the other says.
    #[test]
    fn what_is_replayed_is_what_a_store_in_memory_says() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let clock = ManualClock::at(NOW_US * 1_000);
            let memory = MemoryStore::with(MemoryOptions::default(), clock.clone()).unwrap();
            // One charge to a key in a request: two of one log do not both say when they fit.
            let quotas: Vec<Quota> = (0..3).map(|_| quota(&mut random)).collect();
            let target = |(at, quota): (usize, &Quota)| Target {
                key: format!("key-{at}").into_bytes().into(),
                terms: Arc::new(Terms::new(*quota).unwrap()),
            };
            let targets: Vec<Target> = quotas.iter().enumerate().map(target).collect();
            let limits: Vec<_> = quotas
                .iter()
                .map(|quota| Store::limit(&memory, "a", *quota, LimitOptions::default()).unwrap())
                .collect();
            let mut shard = Shard::default();
            let mut now = NOW_US;
            for _ in 0..40 {
                let elapsed_us = u64::from(random.below(20_000));
                now += elapsed_us;
                clock.advance(elapsed_us * 1_000);
                let mut charges: SmallVec<[SlotCharge; 4]> = SmallVec::new();
                for _ in 0..1 + random.below(3) {
                    let charge = charge(&mut random, &targets);
                    if charges.iter().all(|other| other.target.key != charge.target.key) {
                        charges.push(charge);
                    }
                }
                let times = 1 + random.below(4);
                let call = Call { lines: vec![Line::Decide { times, charges: charges.clone() }] };
                let reply = shard.execute(&call, now, &mut Vec::new());
                let [Answer::Decided { passed, views }] = &reply.answers[..] else { panic!("{reply:?}") };
                let replayed = replay(&charges, times, now, *passed, views).unwrap();
                let keyed: Vec<KeyedCharge<'_, _>> = charges
                    .iter()
                    .map(|charge| {
                        let at = targets.iter().position(|target| target.key == charge.target.key).unwrap();
                        let SlotCharge { target, cost, mode } = charge;
                        KeyedCharge { limit: &limits[at], key: &target.key, cost: *cost, mode: *mode, receipt: true }
                    })
                    .collect();
                for (nth, replayed) in (0..times).zip(replayed) {
                    let outcome = ready(memory.decide(&keyed));
                    assert_eq!(outcome.passed, nth < *passed, "seed {seed}");
                    let decisions: Vec<Decision> =
                        replayed.decisions.iter().map(|decision| crate::store::in_nanoseconds(*decision)).collect();
                    let expected: Vec<Decision> = outcome.decisions.iter().map(rounded_up).collect();
                    assert_eq!(decisions, expected, "seed {seed}, {charges:?}");
                    let made = replayed.charged.iter().enumerate().filter(|(_, charged)| charged.cost > 0);
                    let made: Vec<(usize, u64)> = made.map(|(at, charged)| (at, charged.cost)).collect();
                    let receipts = outcome.receipts.iter().map(|(at, receipt)| (*at, receipt.cost()));
                    assert_eq!(made, receipts.collect::<Vec<_>>(), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn views_of_other_charges_are_not_understood() {
        let terms = Arc::new(Terms::new(Quota::token_bucket("5/s".parse().unwrap()).unwrap()).unwrap());
        let target = Target { key: Arc::from(&b"a"[..]), terms };
        let charges = [SlotCharge { target, cost: 1, mode: Mode::Enforce }];
        assert_eq!(replay(&charges, 1, NOW_US, 1, &[]), None);
        assert_eq!(replay(&charges, 1, NOW_US, 1, &[View::Window(Default::default())]), None);
        assert!(replay(&charges, 1, NOW_US, 1, &[View::Bucket(Default::default())]).is_some());
    }

    /// A decision of somebody who counts microseconds.
    fn rounded_up(decision: &Decision) -> Decision {
        let us = |ns: u64| ns.div_ceil(1_000) * 1_000;
        let verdict = match decision.verdict {
            Verdict::Refused { retry_after } => Verdict::Refused { retry_after: retry_after.map(us) },
            other => other,
        };
        Decision { verdict, next_after: us(decision.next_after), reset_after: us(decision.reset_after), ..*decision }
    }

    /// A store in memory has its answer at once.
    fn ready<F: Future>(future: F) -> F::Output {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => panic!("a store in memory waits for nothing"),
        }
    }
}
