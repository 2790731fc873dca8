//! Keys that are known to be full, so that refusals are answered without asking again.
//!
//! While a key has no room for a cost of 1, nothing can be charged to it, by no instance and under no cost. The same
//! holds while a block stands before it. So its state stays as it was seen, and the answer to every cost follows from
//! it, with all its numbers. As soon as something could pass, or something is given back, nothing is known any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::Decision;
use tollgate_store::{Limit, Mode, Refusals};

use crate::call::TICK;
use crate::script::{Standing, standings};
use crate::store::Inner;
use crate::store::batch::{BatchAnswer, SlotRequest};
use crate::store::breaker::shards::Watch;
use crate::store::limit::SharedLimit;

/// What is given back elsewhere turns a refusal around. Where that can happen, it is believed for so long.
const BRIEF: Duration = Duration::from_secs(1);

const PARTS: usize = 16;

/// Keys that are full, by key and limit. Bounded: when a part is full, it begins anew.
pub(crate) struct KnownRefusals {
    parts: Vec<Mutex<Part>>,
    keys_per_part: usize,
    /// How many keys are known, for the usual case that there are none.
    keys: AtomicUsize,
    began: Instant,
    /// Until when it is known that nobody has reset a key without this instance
    /// hearing of it, in nanoseconds from the beginning. Where nobody can, always.
    hears_until_ns: AtomicU64,
}

#[derive(Default)]
struct Part {
    /// The limits' entries stand under the key alone, so that looking one up copies nothing.
    by_key: HashMap<Box<[u8]>, SmallVec<[Known; 2]>>,
    /// What was sent up to then may have been refused for something that is given back by now.
    forgot_at: Option<Instant>,
}

#[derive(Clone)]
struct Known {
    limit: Limit,
    seen: Full,
    until: Instant,
}

/// A key that nothing can be charged to.
#[derive(Clone, Debug)]
pub(crate) struct Full {
    pub(crate) standing: Standing,
    /// The server's clock when it was so, in microseconds.
    pub(crate) at_us: u64,
    /// When the question was sent: what is known is at least as young.
    pub(crate) sent_at: Instant,
    /// When the answer came: what is known is at least as old.
    pub(crate) heard_at: Instant,
    /// How long that lasts if nothing is given back.
    pub(crate) lasts: Duration,
}

impl Known {
    fn is_of_counter(&self, limit: &Limit) -> bool {
        SharedLimit::of(&self.limit).prefix_and_scope == SharedLimit::of(limit).prefix_and_scope
    }
}

impl KnownRefusals {
    pub(crate) fn new(keys: usize) -> KnownRefusals {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        let (began, hears_until_ns) = (Instant::now(), AtomicU64::new(u64::MAX));
        KnownRefusals { parts, keys_per_part: keys.div_ceil(PARTS), keys: AtomicUsize::new(0), began, hears_until_ns }
    }

    /// Somebody may reset a key from now on, and it will be heard of.
    pub(crate) fn believe_while_hearing(&self) {
        self.hears_until_ns.store(0, Ordering::Relaxed);
    }

    /// All that was reset before this moment is forgotten here. It is believed
    /// for as long as a refusal is believed without hearing anything.
    pub(crate) fn heard(&self, at: Instant) {
        let until = at.saturating_duration_since(self.began) + BRIEF;
        self.hears_until_ns.fetch_max(nanoseconds(until), Ordering::Relaxed);
    }

    fn hears(&self, now: Instant) -> bool {
        nanoseconds(now.saturating_duration_since(self.began)) < self.hears_until_ns.load(Ordering::Relaxed)
    }

    /// Whether nothing is known, as is usual.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.load(Ordering::Relaxed) == 0
    }

    /// The answer to a charge, if its key is known to be full. Its times are never too short, and too long by no more
    /// than the answer took that told of the key.
    pub(crate) fn find(&self, limit: &Limit, key: &[u8], cost: u64, now: Instant) -> Option<Decision> {
        let part = self.part(key);
        let is_believed = |known: &Known| now < known.until && (now < known.seen.sent_at + BRIEF || self.hears(now));
        let is_known = |known: &&Known| known.limit == *limit && is_believed(known);
        let Full { standing, at_us, heard_at, .. } = &part.by_key.get(key)?.iter().find(is_known)?.seen;
        let elapsed_us = nanoseconds(now.saturating_duration_since(*heard_at)) / TICK.ns();
        standing.look(limit, at_us.saturating_add(elapsed_us), cost)
    }

    /// What is known of a key's counter from now on: that it is full, or nothing.
    pub(crate) fn replace(&self, limit: &Limit, key: &[u8], full: Option<Full>, now: Instant) {
        if full.is_none() && self.is_empty() {
            return;
        }
        let mut part = self.part(key);
        let before = part.by_key.len();
        self.replace_in(&mut part, limit, key, full, now);
        self.recount(before, part.by_key.len());
    }

    fn replace_in(&self, part: &mut Part, limit: &Limit, key: &[u8], full: Option<Full>, now: Instant) {
        if let Some(known) = part.by_key.get_mut(key) {
            // Limits that share a counter change it for each other.
            known.retain(|known| now < known.until && !known.is_of_counter(limit));
            if known.is_empty() {
                part.by_key.remove(key);
            }
        }
        let Some(seen) = full else { return };
        let lasts = match limit.options().refusals {
            Refusals::Brief | Refusals::Counted | Refusals::Guarded => seen.lasts.min(BRIEF),
            Refusals::Final => seen.lasts,
        };
        let until = seen.sent_at + lasts;
        if now >= until || part.forgot_at.is_some_and(|forgot_at| seen.sent_at <= forgot_at) {
            return;
        }
        if part.by_key.len() >= self.keys_per_part && !part.by_key.contains_key(key) {
            part.make_room(self.keys_per_part, now);
        }
        part.by_key.entry(key.into()).or_default().push(Known { limit: limit.clone(), seen, until });
    }

    /// Something was given back to a key.
    pub(crate) fn forget(&self, key: &[u8], now: Instant) {
        let mut part = self.part(key);
        let before = part.by_key.len();
        part.by_key.remove(key);
        part.forgot_at = Some(now);
        self.recount(before, part.by_key.len());
    }

    pub(crate) fn forget_all(&self, now: Instant) {
        for part in &self.parts {
            let mut part = locked(part);
            self.recount(part.by_key.len(), 0);
            *part = Part { by_key: HashMap::new(), forgot_at: Some(now) };
        }
    }

    /// A part knew `before` keys and knows `after`. Its lock is held, so the sum is never below what is there.
    fn recount(&self, before: usize, after: usize) {
        if after >= before {
            self.keys.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.keys.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, Part> {
        locked(&self.parts[shard_index(key, PARTS)])
    }
}

impl Part {
    /// Forgets what has ended; if that is too little to last for a while, all of it.
    fn make_room(&mut self, most: usize, now: Instant) {
        self.by_key.retain(|_, entries| {
            entries.retain(|known| now < known.until);
            !entries.is_empty()
        });
        if self.by_key.len() > most / 2 {
            self.by_key.clear();
        }
    }
}

fn locked(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Which of a number of locks a key is under, the same in every run: tests come again as they were.
///
/// Who chooses keys so that many are under one lock lets them wait for each
/// other for a moment, and gains nothing. So a quick hash will do.
fn shard_index(key: &[u8], parts: usize) -> usize {
    let hash = key.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    // The upper bits depend on all bytes.
    (hash >> 16) as usize % parts.max(1)
}

impl Inner {
    /// Remembers what the answer tells of its keys. After a refusal, keys that nothing can be charged to stay as they
    /// are.
    pub(in crate::store) fn remember(
        &self,
        request: &SlotRequest,
        answer: &BatchAnswer,
        watch: &Watch,
        sent_at: Instant,
        heard_at: Instant,
    ) {
        if !self.settings.remembers_refusals {
            return;
        }
        let passed = answer.replayed.passed();
        let is_refused = passed < answer.times;
        // Of what comes too late, the age is not known well enough.
        let known = (is_refused && heard_at <= watch.deadline)
            .then(|| standings(&request.charges, answer.now, passed, &answer.views))
            .flatten()
            .unwrap_or_default();
        for (at, (charge, key)) in request.charges.iter().zip(&request.keys).enumerate() {
            // Where a key is charged twice, each stands in the other's way.
            let is_alone = request.charges.iter().filter(|other| other.target.key == charge.target.key).count() == 1;
            let full = known.get(at).filter(|standing| is_alone && !standing.is_large()).and_then(|standing| {
                let lasts = self.lasts(request, at, &known, answer.now)?;
                Some(Full { standing: standing.clone(), at_us: answer.now, sent_at, heard_at, lasts })
            });
            let is_changed = passed > 0 && (charge.is_made() || charge.is_shadow());
            if is_refused || is_changed {
                self.refusals.replace(&charge.target.limit, key, full, heard_at);
            }
        }
    }

    /// How long nothing can be charged to a key: because it is full, or because all guards before it refuse.
    fn lasts(&self, request: &SlotRequest, at: usize, known: &[Standing], now_us: u64) -> Option<Duration> {
        let is_full_for = |at: usize| known[at].is_full_for(&request.charges[at].target.limit, now_us);
        let charge = &request.charges[at];
        let mut lasts_us = is_full_for(at);
        if charge.target.limit.options().refusals == Refusals::Guarded && charge.cost > 0 {
            let is_guard = |other: &usize| {
                let guard = &request.charges[*other];
                let is_final = guard.target.limit.options().refusals == Refusals::Final;
                is_final && request.keys[*other] == request.keys[at] && guard.mode == Mode::Guard
            };
            // `None` is less than any time, so a guard that lets pass is the shortest.
            let guarded_us = (0..known.len()).filter(is_guard).map(is_full_for).min().flatten();
            lasts_us = lasts_us.max(guarded_us);
        }
        lasts_us.map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;
    use tollgate_core::{Quota, Verdict};
    use tollgate_store::{LimitOptions, Mode, OnFailure};

    use super::*;
    use crate::call::{SlotCharge, Target, View};
    use crate::script::standings;
    use crate::store::limit::{Origin, prepare};

    /// Long ago, and a whole number of seconds.
    const AT_US: u64 = 1_700_000_000_000_000;

    fn limit(scope: &str, refusals: Refusals) -> Limit {
        let quota = Quota::sliding_window_log("5 per 2s".parse().unwrap()).unwrap();
        let options = LimitOptions { on_failure: OnFailure::Open, refusals };
        let shared = SharedLimit { prefix_and_scope: scope.as_bytes().into(), origin: Origin::Policy, fallback: None };
        prepare(scope, quota, options, shared).unwrap()
    }

    /// All of the limit was used at once.
    fn full(limit: &Limit, sent_at: Instant, heard_at: Instant) -> Option<Full> {
        let target = Target { key: b"alice".as_slice().into(), limit: limit.clone() };
        let charge = SlotCharge { target, cost: 1, mode: Mode::Enforce };
        let view = View::Log { used: 5, newest: AT_US, debt: 0, front: smallvec![(AT_US, 5)] };
        let standing = standings(&[charge], AT_US, 0, &[view]).unwrap().remove(0);
        let lasts = Duration::from_micros(standing.is_full_for(limit, AT_US).unwrap());
        Some(Full { standing, at_us: AT_US, sent_at, heard_at, lasts })
    }

    fn known(refusals: Refusals, now: Instant) -> (KnownRefusals, Limit) {
        let (known, limit) = (KnownRefusals::new(100), limit("a", refusals));
        known.replace(&limit, b"alice", full(&limit, now, now), now);
        (known, limit)
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn full_key_answers_every_cost_of_its_limit_and_no_other() {
        let now = Instant::now();
        let (known, limit) = known(Refusals::Final, now);
        let verdict = |cost: u64| known.find(&limit, b"alice", cost, now).unwrap().verdict;
        assert_eq!(verdict(0), Verdict::Allowed { delay: 0 });
        assert_eq!(verdict(1), Verdict::Refused { retry_after: Some(2_000_000_000) });
        assert_eq!(verdict(6), Verdict::Impossible);
        assert!(known.find(&self::limit("a", Refusals::Final), b"alice", 1, now).is_none());
        assert!(known.find(&limit, b"bob", 1, now).is_none());
    }

    #[test]
    fn times_run_from_the_answer_and_belief_from_the_question() {
        let (known, limit, sent) = (KnownRefusals::new(100), limit("a", Refusals::Final), Instant::now());
        known.replace(&limit, b"alice", full(&limit, sent, sent + ms(10)), sent + ms(10));
        let found = known.find(&limit, b"alice", 2, sent + ms(510)).unwrap();
        assert_eq!(found.retry_after(), Some(1_500_000_000));
        assert_eq!((found.next_after, found.reset_after), (1_500_000_000, 1_500_000_000));
        assert!(known.find(&limit, b"alice", 2, sent + ms(1_999)).is_some());
        assert!(known.find(&limit, b"alice", 2, sent + ms(2_000)).is_none());
    }

    #[test]
    fn what_may_be_given_back_or_is_counted_is_believed_for_a_second() {
        for refusals in [Refusals::Brief, Refusals::Counted, Refusals::Guarded] {
            let now = Instant::now();
            let (known, limit) = known(refusals, now);
            assert!(known.find(&limit, b"alice", 2, now + ms(999)).is_some());
            assert!(known.find(&limit, b"alice", 2, now + ms(1_000)).is_none());
        }
    }

    #[test]
    fn who_does_not_hear_of_resets_believes_nothing_for_long() {
        let now = Instant::now();
        let (known, limit) = known(Refusals::Final, now);
        known.believe_while_hearing();
        let is_known = |after: u64| known.find(&limit, b"alice", 2, now + ms(after)).is_some();
        assert!(is_known(999) && !is_known(1_000));
        known.heard(now + ms(800));
        assert!(is_known(1_799) && !is_known(1_800));
        known.heard(now + ms(500));
        assert!(is_known(1_799), "what is heard late takes nothing back");
    }

    #[test]
    fn another_answer_about_the_counter_replaces_what_is_known() {
        let now = Instant::now();
        let (known, limit) = known(Refusals::Final, now);
        let other = self::limit("b", Refusals::Final);
        known.replace(&other, b"alice", full(&other, now, now), now);
        // The same counter under another quota.
        known.replace(&self::limit("a", Refusals::Final), b"alice", None, now);
        assert!(known.find(&limit, b"alice", 1, now).is_none());
        assert!(known.find(&other, b"alice", 1, now).is_some());
        known.replace(&other, b"alice", None, now);
        assert!(known.find(&other, b"alice", 1, now).is_none());
    }

    #[test]
    fn giving_back_forgets_also_what_is_still_on_its_way() {
        let now = Instant::now();
        let (known, limit) = known(Refusals::Final, now);
        known.forget(b"alice", now + ms(1));
        assert!(known.find(&limit, b"alice", 2, now + ms(1)).is_none());
        known.replace(&limit, b"alice", full(&limit, now, now + ms(2)), now + ms(2));
        assert!(known.find(&limit, b"alice", 2, now + ms(2)).is_none());
        known.replace(&limit, b"alice", full(&limit, now + ms(3), now + ms(4)), now + ms(4));
        assert!(known.find(&limit, b"alice", 2, now + ms(4)).is_some());
        known.forget_all(now + ms(5));
        assert!(known.find(&limit, b"alice", 2, now + ms(5)).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let (known, limit, now) = (KnownRefusals::new(64), limit("a", Refusals::Final), Instant::now());
        for number in 0..10_000_u32 {
            known.replace(&limit, number.to_string().as_bytes(), full(&limit, now, now), now);
        }
        let held: usize = known.parts.iter().map(|part| locked(part).by_key.len()).sum();
        assert!((16..=64).contains(&held), "{held}");
    }

    #[test]
    fn keys_alike_are_spread_evenly() {
        let mut counts = [0; 16];
        for number in 0..16_000 {
            counts[shard_index(format!("user-{number:07}").as_bytes(), 16)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
