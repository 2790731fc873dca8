//! Rate limiting algorithms as pure functions.
//!
//! Every algorithm is a function of a key's state, a compiled quota, the time and a cost. This crate knows no clock, no
//! lock, no socket and no policy file. Stores, simulators and tests call the same functions, and are tested against
//! them.
//!
//! - [`Rate`] is a rate as users write it: `100/s`, `5/min burst 20`.
//! - [`Quota`] is a rate under an algorithm. A quota that cannot be computed exactly cannot be built.
//! - [`Bucket`], [`FixedWindow`], [`SlidingCounter`], [`SlidingLog`] and [`Concurrency`] are quotas compiled for one
//!   unit of time, a [`Tick`]. They implement [`Algorithm`]. [`CompiledQuota`] is any of them.
//! - [`Decision`] is the result of a charge.
//! - [`TokenLease`] is the size of leases of a quota's tokens, for instances that share a store.
//! - [`RegionShare`] is the part of a limit that one of several regions enforces.
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
//! `docs/state.md` describes how state is represented, and why no arithmetic overflows or creates quota.

mod algorithm;
mod bound;
mod bucket;
mod compiled;
mod concurrency;
mod decision;
mod fraction;
mod lease;
mod quota;
mod rate;
mod region;
mod tick;
mod window;

pub use algorithm::{Algorithm, Charged, Settlement};
pub use bound::{max_admitted, max_admitted_without_delays};
pub use bucket::{
    AnyCostKernel, Bucket, BucketShape, BucketState, CheckKernel, FractionKernel, TickSpan, WholeTickKernel,
};
pub use compiled::{CompiledQuota, Family};
pub use concurrency::{Concurrency, Leases};
pub use decision::{ChargeVerdict, Decision};
pub use lease::{NotLeased, TokenLease};
pub use quota::{AlgorithmKind, Queue, Quota, QuotaError};
pub use rate::parser::ParseRateError;
pub use rate::{MAX_AMOUNT, MAX_SPAN_NS, Rate, RateError};
pub use region::{NotRegional, RegionShare};
pub use tick::Tick;
pub use window::fixed_window::{FixedWindow, WindowState};
pub use window::sliding_counter::{CounterState, SlidingCounter};
pub use window::sliding_log::{LogState, SlidingLog};
