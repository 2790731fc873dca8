//! The decisions of tollgate, and nothing else.
//!
//! Every algorithm here is a function of a key's state, a compiled quota, the
//! time and a cost. Nothing in this crate knows a clock, a lock, a socket or a
//! policy file; stores, simulators and tests call the same functions and are
//! measured against them.
//!
//! - [`Rate`] is what people write: `100/s`, `5/min burst 20`.
//! - [`Quota`] is a rate under an algorithm, checked so that an impossible one
//!   cannot be built.
//! - [`Bucket`], [`FixedWindow`], [`SlidingCounter`], [`SlidingLog`] and
//!   [`Concurrency`] are quotas compiled for one unit of time, a [`Tick`]. They
//!   implement [`Algorithm`]. [`CompiledQuota`] is any of them.
//! - [`Decision`] is the answer.
//!
//! ```
//! use tollgate_core::{Algorithm, Bucket, BucketState, Quota, Tick};
//!
//! let quota = Quota::token_bucket("5/min burst 2".parse()?)?;
//! let bucket = Bucket::new(&quota, Tick::Nanosecond).expect("a token bucket is a bucket");
//! let mut state = BucketState::default();
//! let now = 1_000_000_000;
//! assert!(bucket.check(&mut state, now, 1).is_allowed());
//! assert!(bucket.check(&mut state, now, 1).is_allowed());
//! let refused = bucket.check(&mut state, now, 1);
//! assert_eq!(refused.retry_after(), Some(12_000_000_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! How state is represented, and why nothing overflows or mints quota, is told
//! in `docs/state.md`.

mod algorithm;
mod bound;
mod bucket;
mod compiled;
mod concurrency;
mod decision;
mod fraction;
mod quota;
mod rate;
mod tick;
mod window;

pub use algorithm::{Algorithm, Charged, Settled};
pub use bound::{most_admitted, most_admitted_unheld};
pub use bucket::{AnySteps, Bucket, BucketShape, BucketState, CheckSteps, FractionSteps, Span, WholeSteps};
pub use compiled::{CompiledQuota, Family};
pub use concurrency::{Concurrency, Leases};
pub use decision::{Decision, Verdict};
pub use quota::{AlgorithmKind, Queue, Quota, QuotaError};
pub use rate::parser::ParseRateError;
pub use rate::{MAX_AMOUNT, MAX_SPAN_NS, Rate, RateError};
pub use tick::Tick;
pub use window::fixed_window::{FixedWindow, WindowState};
pub use window::sliding_counter::{CounterState, SlidingCounter};
pub use window::sliding_log::{Log, SlidingLog};
