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
mod limit_options;
mod operation;
mod options;
mod outcome;
mod quotas;
mod sync;
mod table;

mod board;
mod caller_states;
mod charge;
mod locked_table;
mod memory;
mod receipt;
mod store;
mod tables;
mod timer;
mod wait;
mod wait_lists;

// What is written down stands in memory that loom does not see.
#[cfg(not(loom))]
mod pages;
#[cfg(not(loom))]
mod snapshot;

pub use clock::{Clock, ManualClock, RealClock};
pub use key::{Key, KeyHasher};
pub use limit::{Limit, LimitError};
pub use options::{BuildError, Capacity, MemoryOptions, WhenFull};
pub use tollgate_core::{
    AlgorithmKind, Decision, ParseRateError, Queue, Quota, QuotaError, Rate, RateError, Settled, Verdict,
};

pub use board::{Board, ChangeError, MOST_NOTICES, Notice};
pub use charge::{Charge, KeyHash, Mode, shadow_groups};
pub use limit_options::{LimitOptions, OnFailure, Refusals};
pub use memory::{MemoryStore, Stats};
pub use outcome::{Asked, Outcome, Source};
pub use receipt::Receipt;
#[cfg(not(loom))]
pub use snapshot::{RestoreError, Restored, Written};
pub use store::{BoxFuture, Store, StoreAdmin};
#[cfg(feature = "tokio")]
pub use timer::TokioTimer;
pub use timer::{ManualSleep, Timer};
pub use wait::{Acquired, NotAcquired, Wait};
