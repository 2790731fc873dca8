//! Token leases: tokens of a key that this instance has taken from the server ahead of requests, and spends without a
//! call.
//!
//! The server counts leased tokens beside the state of their key until they are reported as spent, returned, or until
//! their generation has ended (see [`LeaseRequest`](crate::call::LeaseRequest)). So a lease never admits more than the
//! limit; it only withholds tokens from others for a time.
//!
//! A key is leased while its requests are frequent. `terms` states how many tokens of a limit may be leased, and for how
//! long; `demand` counts requests; `leased_key` decides what to spend, when to ask for more and what to return; `check`
//! decides requests from leases; `exchange` sends the calls.

mod check;
pub(crate) mod clock;
mod demand;
mod exchange;
mod leased_key;
pub(super) mod terms;

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(not(test))]
use foldhash::fast::RandomState;
use smallvec::SmallVec;

use self::clock::LeaseClock;
use self::demand::DemandEstimate;
use self::leased_key::LeasedKey;

pub(super) use check::{LeaseCheck, TakenCharges};
pub(super) use leased_key::LotId;

/// Tests need the same order of keys in every run.
#[cfg(test)]
type RandomState = foldhash::fast::FixedState;

const SHARDS: usize = 16;

/// The maximum number of keys with leases. Further keys are decided by the server.
const MAX_KEYS: usize = 1 << 16;

/// The leases of an instance.
#[derive(Debug)]
pub(super) struct LeaseTable {
    clock: LeaseClock,
    /// Leased keys by the key as supplied by the caller, so that a lookup copies nothing. A key has an entry for each
    /// scope.
    shards: Vec<Mutex<LeaseShard>>,
    hasher: RandomState,
    /// The number of leased keys.
    keys: AtomicUsize,
    estimate: DemandEstimate,
    call_ids: AtomicU64,
    /// Whether the task that sends unused tokens back is running.
    has_sweeper: AtomicBool,
    /// Whether the instance stops: nothing more is leased.
    is_closed: AtomicBool,
}

type LeaseShard = HashMap<Box<[u8]>, SmallVec<[LeasedKey; 1]>, RandomState>;

impl LeaseTable {
    pub(super) fn new(clock: LeaseClock) -> LeaseTable {
        LeaseTable {
            clock,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            keys: AtomicUsize::new(0),
            estimate: DemandEstimate::new(),
            call_ids: AtomicU64::new(0),
            has_sweeper: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Returns the number of leased keys, and the tokens of all of them that this instance may spend.
    pub(super) fn held(&self) -> (u64, u64) {
        let now_ns = self.clock.now_ns();
        let mut held = (0, 0);
        for shard in &self.shards {
            for leased in lock(shard).values().flatten() {
                held = (held.0 + 1, held.1 + leased.left(now_ns));
            }
        }
        held
    }

    /// Forgets that a key was exhausted, because an operator has reset it or capacity was refunded.
    pub(super) fn forget_refusals(&self, key: &[u8]) {
        if self.keys.load(Ordering::Relaxed) > 0 {
            self.shard(key).get_mut(key).into_iter().flatten().for_each(LeasedKey::forget_refusal);
        }
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, LeaseShard> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }

    fn next_id(&self) -> u64 {
        self.call_ids.fetch_add(1, Ordering::Relaxed)
    }
}

fn lock(shard: &Mutex<LeaseShard>) -> MutexGuard<'_, LeaseShard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
