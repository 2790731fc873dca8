//! Where tollgate keeps state: in memory, exact, bounded, shared by all threads.
//!
//! ```
//! use tollgate_store::{MemoryStore, Quota};
//!
//! let store = MemoryStore::new();
//! let limit = store.limit("per-user", Quota::token_bucket("5/min".parse()?)?)?;
//! assert!(store.check(&limit, "alice", 1).is_allowed());
//! assert_eq!(store.peek(&limit, "alice").remaining, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Time is in nanoseconds throughout: the delays and times of a [`Decision`] too.

#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod callers;
mod cell;
mod clock;
mod entry;
mod family;
mod full;
mod key;
mod limit;
mod operation;
mod options;
mod quotas;
mod sync;
mod table;

// The rest does not touch the primitives that loom replaces.
#[cfg(not(loom))]
mod board;
#[cfg(not(loom))]
mod caller_states;
#[cfg(not(loom))]
mod charge;
#[cfg(not(loom))]
mod locked_table;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod pages;
#[cfg(not(loom))]
mod receipt;
#[cfg(not(loom))]
mod snapshot;
#[cfg(not(loom))]
mod store;
#[cfg(not(loom))]
mod tables;
#[cfg(not(loom))]
mod timer;
#[cfg(not(loom))]
mod wait;
#[cfg(not(loom))]
mod wait_lists;

pub use clock::{Clock, ManualClock, RealClock};
pub use key::{Key, KeyHasher};
pub use limit::{Limit, LimitError};
pub use options::{BuildError, Capacity, MemoryOptions, WhenFull};
pub use tollgate_core::{
    AlgorithmKind, Decision, ParseRateError, Queue, Quota, QuotaError, Rate, RateError, Settled, Verdict,
};

#[cfg(all(feature = "tokio", not(loom)))]
pub use timer::TokioTimer;
#[cfg(not(loom))]
pub use {
    board::{Board, ChangeError, MOST_NOTICES, Notice},
    charge::{Charge, Mode, shadow_groups},
    memory::{MemoryStore, Stats},
    receipt::Receipt,
    snapshot::{RestoreError, Restored, Written},
    store::{Asked, KeyedCharge, LimitOptions, OnFailure, Outcome, Refusals, Source, Store},
    timer::{ManualSleep, Timer},
    wait::{Acquired, NotAcquired, Wait},
};
