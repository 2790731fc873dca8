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

mod cell;
mod charge;
mod clock;
mod entry;
mod full;
mod key;
mod limit;
mod locked_table;
mod memory;
mod operation;
mod options;
mod pages;
mod receipt;
mod sync;
mod table;
mod tables;

pub use charge::Charge;
pub use clock::{Clock, ManualClock, RealClock};
pub use key::{Key, KeyHasher};
pub use limit::{Limit, LimitError};
pub use memory::{MemoryStore, Stats};
pub use options::{BuildError, Capacity, MemoryOptions, WhenFull};
pub use receipt::Receipt;
pub use tollgate_core::{
    AlgorithmKind, Decision, ParseRateError, Queue, Quota, QuotaError, Rate, RateError, Settled, Verdict,
};
