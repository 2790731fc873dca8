//! Refusals that still hold, so that they are answered without asking again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{Decision, Verdict};
use tollgate_store::Refusals;

use super::part_of::part_of;

/// What is given back elsewhere turns a refusal around. Where that can happen, it is believed for so long.
const BRIEF: Duration = Duration::from_secs(1);

const PARTS: usize = 16;

/// What was refused, by key and limit. Bounded: when a part is full, it begins anew.
pub(crate) struct KnownRefusals {
    parts: Vec<Mutex<Part>>,
    keys_per_part: usize,
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

#[derive(Clone, Copy)]
struct Known {
    limit: u64,
    cost: u64,
    since: Instant,
    until: Instant,
    /// As it was answered, in nanoseconds.
    decision: Decision,
}

/// A refusal as it came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) limit: u64,
    pub(crate) key: &'a [u8],
    pub(crate) cost: u64,
    /// When the question was sent: the refusal is at least as young.
    pub(crate) sent_at: Instant,
    /// The answer, in nanoseconds.
    pub(crate) decision: Decision,
    pub(crate) lasting: Refusals,
}

impl KnownRefusals {
    pub(crate) fn new(keys: usize) -> KnownRefusals {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        let (began, hears_until_ns) = (Instant::now(), AtomicU64::new(u64::MAX));
        KnownRefusals { parts, keys_per_part: keys.div_ceil(PARTS), began, hears_until_ns }
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

    /// The answer to a charge that is known to be refused.
    pub(crate) fn find(&self, limit: u64, key: &[u8], cost: u64, now: Instant) -> Option<Decision> {
        let part = self.part(key);
        let is_believed = |known: &Known| now < known.until && (now < known.since + BRIEF || self.hears(now));
        let is_known = |known: &&Known| known.limit == limit && cost >= known.cost && is_believed(known);
        let known = part.by_key.get(key)?.iter().find(is_known)?;
        let elapsed_ns = nanoseconds(now.saturating_duration_since(known.since));
        let later = |ns: u64| ns.saturating_sub(elapsed_ns);
        Some(Decision {
            verdict: Verdict::Refused { retry_after: known.decision.retry_after().map(later) },
            next_after: later(known.decision.next_after),
            reset_after: later(known.decision.reset_after),
            ..known.decision
        })
    }

    pub(crate) fn remember(&self, refusal: &Refusal<'_>, now: Instant) {
        let Some(retry_after) = refusal.decision.retry_after() else { return };
        let lasts = match refusal.lasting {
            Refusals::Counted => return,
            Refusals::Brief => Duration::from_nanos(retry_after).min(BRIEF),
            Refusals::Final => Duration::from_nanos(retry_after),
        };
        let until = refusal.sent_at + lasts;
        let mut part = self.part(refusal.key);
        if now >= until || part.forgot_at.is_some_and(|forgot_at| refusal.sent_at <= forgot_at) {
            return;
        }
        if part.by_key.len() >= self.keys_per_part && !part.by_key.contains_key(refusal.key) {
            part.make_room(self.keys_per_part, now);
        }
        let Refusal { limit, cost, sent_at: since, decision, .. } = *refusal;
        let entries = part.by_key.entry(refusal.key.into()).or_default();
        entries.retain(|known| now < known.until && (known.limit, known.cost) != (limit, cost));
        entries.push(Known { limit, cost, since, until, decision });
    }

    /// Something was given back to a key.
    pub(crate) fn forget(&self, key: &[u8], now: Instant) {
        let mut part = self.part(key);
        part.by_key.remove(key);
        part.forgot_at = Some(now);
    }

    pub(crate) fn forget_all(&self, now: Instant) {
        for part in &self.parts {
            *locked(part) = Part { by_key: HashMap::new(), forgot_at: Some(now) };
        }
    }

    fn part(&self, key: &[u8]) -> MutexGuard<'_, Part> {
        locked(&self.parts[part_of(key, PARTS)])
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(retry_ms: u64) -> Decision {
        let retry_after = Some(retry_ms * 1_000_000);
        let verdict = Verdict::Refused { retry_after };
        Decision { verdict, limit: 5, remaining: 0, next_after: 1_000_000, reset_after: 3_000_000_000 }
    }

    fn refusal(sent_at: Instant, lasting: Refusals) -> Refusal<'static> {
        Refusal { limit: 1, key: b"alice", cost: 2, sent_at, decision: refused(2_000), lasting }
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn it_holds_for_that_cost_or_more_of_that_key_and_limit() {
        let (known, now) = (KnownRefusals::new(100), Instant::now());
        known.remember(&refusal(now, Refusals::Final), now);
        assert!(known.find(1, b"alice", 2, now).is_some());
        assert!(known.find(1, b"alice", 9, now).is_some());
        assert!(known.find(1, b"alice", 1, now).is_none());
        assert!(known.find(2, b"alice", 2, now).is_none());
        assert!(known.find(1, b"bob", 2, now).is_none());
    }

    #[test]
    fn its_times_run_from_the_moment_of_sending() {
        let (known, sent) = (KnownRefusals::new(100), Instant::now());
        known.remember(&refusal(sent, Refusals::Final), sent + ms(10));
        let found = known.find(1, b"alice", 2, sent + ms(500)).unwrap();
        assert_eq!(found.retry_after(), Some(1_500_000_000));
        assert_eq!((found.next_after, found.reset_after), (0, 2_500_000_000));
        assert!(known.find(1, b"alice", 2, sent + ms(1_999)).is_some());
        assert!(known.find(1, b"alice", 2, sent + ms(2_000)).is_none());
    }

    #[test]
    fn what_may_be_given_back_is_believed_for_a_second_and_what_is_counted_never() {
        let (known, now) = (KnownRefusals::new(100), Instant::now());
        known.remember(&refusal(now, Refusals::Brief), now);
        assert!(known.find(1, b"alice", 2, now + ms(999)).is_some());
        assert!(known.find(1, b"alice", 2, now + ms(1_000)).is_none());
        let counted = KnownRefusals::new(100);
        counted.remember(&refusal(now, Refusals::Counted), now);
        assert!(counted.find(1, b"alice", 2, now).is_none());
    }

    #[test]
    fn who_does_not_hear_of_resets_believes_nothing_for_long() {
        let (known, now) = (KnownRefusals::new(100), Instant::now());
        known.believe_while_hearing();
        known.remember(&refusal(now, Refusals::Final), now);
        let is_known = |after: u64| known.find(1, b"alice", 2, now + ms(after)).is_some();
        assert!(is_known(999) && !is_known(1_000));
        known.heard(now + ms(800));
        assert!(is_known(1_799) && !is_known(1_800));
        known.heard(now + ms(500));
        assert!(is_known(1_799), "what is heard late takes nothing back");
    }

    #[test]
    fn a_permit_may_come_back_at_any_time() {
        let (known, now) = (KnownRefusals::new(100), Instant::now());
        let nobody_knows = Decision { verdict: Verdict::Refused { retry_after: None }, ..refused(0) };
        known.remember(&Refusal { decision: nobody_knows, ..refusal(now, Refusals::Final) }, now);
        assert!(known.find(1, b"alice", 2, now).is_none());
    }

    #[test]
    fn giving_back_forgets_also_what_is_still_on_its_way() {
        let (known, now) = (KnownRefusals::new(100), Instant::now());
        known.remember(&refusal(now, Refusals::Final), now);
        known.forget(b"alice", now + ms(1));
        assert!(known.find(1, b"alice", 2, now + ms(1)).is_none());
        known.remember(&refusal(now, Refusals::Final), now + ms(2));
        assert!(known.find(1, b"alice", 2, now + ms(2)).is_none());
        known.remember(&refusal(now + ms(3), Refusals::Final), now + ms(4));
        assert!(known.find(1, b"alice", 2, now + ms(4)).is_some());
        known.forget_all(now + ms(5));
        assert!(known.find(1, b"alice", 2, now + ms(5)).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let (known, now) = (KnownRefusals::new(64), Instant::now());
        for number in 0..10_000_u32 {
            let key = number.to_string();
            known.remember(&Refusal { key: key.as_bytes(), ..refusal(now, Refusals::Final) }, now);
        }
        let held: usize = known.parts.iter().map(|part| locked(part).by_key.len()).sum();
        assert!((16..=64).contains(&held), "{held}");
    }
}
