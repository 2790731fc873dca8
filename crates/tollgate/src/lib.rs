//! Exact rate limiting inside a Rust program: nothing else to run.
//!
//! ```
//! use tollgate::{Limiter, Request, rule};
//!
//! let limiter = Limiter::builder().rule(rule("per-ip").per("client_ip").limit("100/min")).build()?;
//! let request = Request::from_peer(Some("203.0.113.9".parse()?));
//! assert!(limiter.check(&request).is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A [`Limiter`] is a policy and the counters behind it. The policy is put together in the program, or
//!   read from a file (feature `yaml`). A [`Request`] is what is known of who asks; a [`Verdict`] says what
//!   to do, which [rule](Verdict::rule) decided and how all of them stand, and renders itself as response
//!   [fields](Verdict::fields) and as a [problem](Verdict::problem_json).
//! - What is wrong with a policy is an error, in a program as in a file; what is likely wrong is in
//!   [`AsyncLimiter::warnings`], for the program to print.
//! - A [`Permit`] holds what limits how many are under way, and lets go of it. A [`Receipt`] refunds a
//!   request or settles it to its true cost.
//! - The feature `tower` has a layer for axum, hyper and tonic services.
//! - A [`Limiter`] has its counters in this process and answers at once. An [`AsyncLimiter`] is the same
//!   over any [`Store`]: Redis, Valkey or a cluster of them (feature `redis`), or one of one's own.
//!
//! Below a policy there are plain limits, for programs that know their keys:
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
//! - A [`Decision`] says whether a charge may be made, what remains and when to come back. Its times are
//!   in nanoseconds.
//! - A [`ChargeReceipt`] gives a charge back, settles it to its true cost, or releases a permit: once.
//! - [`acquire`](MemoryStore::acquire) waits for its turn, under a leaky bucket with a [`Queue`] or a
//!   bucket with reservations. It needs a [`Timer`]; the feature `tokio` brings tokio's.
//!
//! Tests bring a [`ManualClock`] and move it themselves:
//!
//! ```
//! use tollgate::{AlgorithmKind, Limiter, ManualClock, Request, rule};
//!
//! let clock = ManualClock::at(1_000_000_000);
//! let login = rule("login").per("client_ip").limit("1/min").algorithm(AlgorithmKind::SlidingWindowLog);
//! let limiter = Limiter::builder().rule(login).build_with_clock(clock.clone())?;
//! let request = Request::from_peer(Some("203.0.113.9".parse()?));
//! assert!(limiter.check(&request).is_allowed());
//! assert_eq!(limiter.check(&request).retry_after(), Some(std::time::Duration::from_secs(60)));
//! clock.advance(60_000_000_000);
//! assert!(limiter.check(&request).is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "redis")]
mod connect;
mod fields;
mod holding;
mod limiter;
mod permit;
mod receipt;
#[cfg(feature = "tower")]
pub mod tower;
mod verdict;

#[cfg(feature = "redis")]
pub use connect::{ConnectError, redis_store};
pub use fields::{Field, INVALID_TOKEN, PROBLEM_JSON};
pub use limiter::{
    Ask, AskedTogether, AsyncLimiter, KeyCounter, KeyError, KeyOverride, KeyReport, Limiter, LimiterBuilder,
    LimiterError, Part, Together, memory_options, memory_store,
};
pub use permit::Permit;
pub use receipt::Receipt;
pub use tollgate_core::{
    AlgorithmKind, Decision, MAX_AMOUNT, MAX_SPAN_NS, ParseRateError, Queue, Quota, QuotaError, Rate, RateError,
    Settled, Tick, Verdict as ChargeVerdict, most_admitted, most_admitted_unheld,
};
pub use tollgate_policy::{
    self as policy, CheckedPolicy, Descriptor, Headers, Policy, PolicyBuilder, Request, RuleBuilder, rule,
};
#[cfg(feature = "redis")]
pub use tollgate_redis::{self as redis, RedisStore};
#[cfg(feature = "tokio")]
pub use tollgate_store::TokioTimer;
pub use tollgate_store::{
    Acquired, Asked, BoxFuture, BuildError, Capacity, ChangeError, Charge, Clock, Key, KeyHash, KeyHasher, Limit,
    LimitError, LimitOptions, ManualClock, ManualSleep, MemoryOptions, MemoryStore, Mode, NotAcquired, OnFailure,
    Outcome, RealClock, Receipt as ChargeReceipt, Refusals, RestoreError, Restored, SharedOverrides, Source, Stats,
    Store, StoreAdmin, StoredOverride, Timer, Wait, WhenFull, Written,
};
pub use verdict::{Action, RuleState, Verdict};
