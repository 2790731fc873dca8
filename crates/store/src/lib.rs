//! Stores for rate limit state. [`MemoryStore`] is exact, bounded and shared by all threads of a process; [`Store`] is
//! the interface of all stores.
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
//! All times are in nanoseconds, including the delays and times of a [`Decision`].

#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod clock;
mod limit;
mod locked_table;
mod memory;
#[cfg(not(loom))]
mod snapshot;
mod store;
mod sync;
mod table;
mod wait;

pub use clock::{Clock, ManualClock, RealClock};
pub use limit::key::{Key, KeyHasher, ShortText};
pub use limit::options::{LimitOptions, OnFailure, Refusals};
pub use limit::{Limit, LimitError};
pub use memory::options::{BuildError, Capacity, MemoryOptions, WhenFull};
pub use memory::{DecisionSlot, MemoryStore, Stats};
#[cfg(not(loom))]
pub use snapshot::{RestoreError, RestoreSummary, SnapshotSummary};
pub use store::charge::{Charge, ChargeMode, KeyHash, shadow_groups};
pub use store::outcome::{DecidedCharges, Outcome, Source};
pub use store::overrides::{ChangeError, MAX_OVERRIDES, SharedOverrides, StoredOverride};
pub use store::receipt::ChargeReceipt;
pub use store::{BoxFuture, Store, StoreAdmin};
pub use tollgate_core::{
    AlgorithmKind, ChargeVerdict, Decision, ParseRateError, Queue, Quota, QuotaError, Rate, RateError, Settlement,
};
#[cfg(feature = "tokio")]
pub use wait::timer::TokioTimer;
pub use wait::timer::{ManualSleep, Timer};
pub use wait::{AcquireError, Acquired, Wait};
