//! Exact rate limiting inside a Rust program: nothing else to run.
//!
//! ```
//! use tollgate::{MemoryStore, Quota};
//!
//! let store = MemoryStore::new();
//! let limit = store.limit("per-user", Quota::token_bucket("5/min".parse()?)?)?;
//! let decision = store.check(&limit, "alice", 1);
//! assert!(decision.is_allowed());
//! assert_eq!(decision.remaining, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A [`Rate`] is written as people say it: `100/s`, `10 per 30s`, `60/min burst 100`.
//! - A [`Quota`] puts it under an algorithm: token bucket, leaky bucket, windows, concurrency.
//! - A [`MemoryStore`] counts by [`Key`]: a name, an address, or several parts together. It is shared by
//!   all threads, exact among them, and never takes more memory than its [`Capacity`]; what happens when
//!   that is full of live keys is [`WhenFull`].
//! - A [`Decision`] says whether a request may pass, what remains and when to come back. Its times are
//!   in nanoseconds.
//! - A [`Receipt`] gives a charge back, settles it to its true cost, or releases a permit: once.
//! - [`acquire`](MemoryStore::acquire) waits for its turn, under a leaky bucket with a [`Queue`] or a
//!   bucket with reservations. It needs a [`Timer`]; the feature `tokio` brings tokio's.
//!
//! Tests bring a [`ManualClock`] and move it themselves:
//!
//! ```
//! use tollgate::{ManualClock, MemoryOptions, MemoryStore, Quota};
//!
//! let clock = ManualClock::at(1_000_000_000);
//! let store = MemoryStore::with(MemoryOptions::default(), clock.clone())?;
//! let login = store.limit("login", Quota::sliding_window_log("1/min".parse()?)?)?;
//! assert!(store.check(&login, "alice", 1).is_allowed());
//!
//! let refused = store.check(&login, "alice", 1);
//! assert_eq!(refused.retry_after(), Some(60_000_000_000));
//! clock.advance(60_000_000_000);
//! assert!(store.check(&login, "alice", 1).is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use tollgate_core::{
    AlgorithmKind, Decision, MAX_AMOUNT, MAX_SPAN_NS, ParseRateError, Queue, Quota, QuotaError, Rate, RateError,
    Settled, Verdict, most_admitted,
};
#[cfg(feature = "tokio")]
pub use tollgate_store::TokioTimer;
pub use tollgate_store::{
    Acquired, BuildError, Capacity, Charge, Clock, Key, KeyHasher, Limit, LimitError, ManualClock, ManualSleep,
    MemoryOptions, MemoryStore, NotAcquired, RealClock, Receipt, Stats, Timer, Wait, WhenFull,
};
