use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use tollgate::{ChargeVerdict, Decision, Quota};
use tollgate_core::{Algorithm, Bucket, BucketState, Tick};

/// With the keys of a set there is room for 65,536 keys, in at most 10 MiB.
const SETS: usize = 4096;
const KEYS_PER_SET: usize = 16;

/// Buckets that carry their own quotas, behind locks, in a bounded number of places.
///
/// A key's hash chooses the set in which it lives. A set that is full of live
/// keys forgets the one that would be full again soonest, or refuses the new one.
pub(super) struct Overflow {
    sets: Box<[Mutex<Vec<Entry>>]>,
    hasher: RandomState,
    refuses_when_full: bool,
    evictions: AtomicU64,
}

/// One key. Like in the store, its hash stands for it.
struct Entry {
    hash: u64,
    /// The quota that wrote the state.
    writer: Bucket,
    state: BucketState,
}

/// A key's place, and the lock on it.
pub(super) struct Place<'a> {
    set: MutexGuard<'a, Vec<Entry>>,
    hash: u64,
    overflow: &'a Overflow,
}

impl Overflow {
    pub(super) fn new(refuses_when_full: bool) -> Overflow {
        Overflow {
            sets: (0..SETS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            refuses_when_full,
            evictions: AtomicU64::new(0),
        }
    }

    pub(super) fn lock(&self, key: &[u8]) -> Place<'_> {
        let hash = self.hasher.hash_one(key);
        let set = &self.sets[(hash % SETS as u64) as usize];
        Place { set: set.lock().unwrap_or_else(PoisonError::into_inner), hash, overflow: self }
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }
}

impl Place<'_> {
    /// Whether anything is known of the key here.
    pub(super) fn is_live(&self, now_ns: u64) -> bool {
        self.find().is_some_and(|at| self.set[at].is_live(now_ns))
    }

    /// Decides, on top of what the key has used elsewhere, and says whether its state is here now.
    pub(super) fn check(&mut self, quota: &Quota, used_elsewhere: u64, now_ns: u64, cost: u64) -> (Decision, bool) {
        let Some(bucket) = Bucket::new(quota, Tick::Nanosecond) else { return (no_room(quota), false) };
        let found = self.find();
        let known = found.map(|at| &self.set[at]);
        let is_own = used_elsewhere == 0 && known.is_some_and(|entry| entry.writer == bucket);
        let mut state = match known {
            Some(entry) if entry.writer == bucket => entry.state,
            Some(entry) => bucket.adopt(&entry.writer, entry.state, now_ns),
            None => BucketState::default(),
        };
        // What is beyond the limit cannot be used, and a limit that is smaller now forgives it.
        bucket.force(&mut state, now_ns, used_elsewhere);
        let decision = bucket.check(&mut state, now_ns, cost);
        // A refusal under another quota leaves what is known as it is: carried over, it would be rounded.
        if cost == 0 || !(decision.is_allowed() || is_own) {
            return (decision, false);
        }
        let entry = Entry { hash: self.hash, writer: bucket, state };
        match found {
            Some(at) => self.set[at] = entry,
            None if self.settle(entry, now_ns) => {}
            None => return (no_room(quota), false),
        }
        (decision, true)
    }

    fn find(&self) -> Option<usize> {
        self.set.iter().position(|entry| entry.hash == self.hash)
    }

    /// Finds room for a new key; `false` if there is none.
    fn settle(&mut self, new: Entry, now_ns: u64) -> bool {
        if self.set.len() < KEYS_PER_SET {
            self.set.push(new);
            return true;
        }
        let Some(soonest) = self.set.iter_mut().min_by_key(|entry| Bucket::full_at(entry.state)) else { return false };
        if soonest.is_live(now_ns) {
            if self.overflow.refuses_when_full {
                return false;
            }
            self.overflow.evictions.fetch_add(1, Ordering::Relaxed);
        }
        *soonest = new;
        true
    }
}

impl Entry {
    /// One that is full again says no more than none at all.
    fn is_live(&self, now_ns: u64) -> bool {
        Bucket::full_at(self.state) > now_ns
    }
}

fn no_room(quota: &Quota) -> Decision {
    Decision { verdict: ChargeVerdict::NoRoom, limit: quota.burst(), remaining: 0, next_after: 0, reset_after: 0 }
}
