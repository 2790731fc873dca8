//! An exact rate limiter for Rust programs.
//!
//! ```
//! use tollgate::Limiter;
//!
//! let limiter = Limiter::per_key("100/min")?;
//! assert!(limiter.check("alice").is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A limiter with rules decides [requests](Request) by address, user, path or tier, all rules together:
//!
//! ```
//! use tollgate::{Limiter, Request, rule};
//!
//! let limiter = Limiter::builder().rule(rule("per-user").per("user").limit("100/min")).build()?;
//! let request = Request { identities: &[("user", "alice")], ..Request::from_peer(None) };
//! let verdict = limiter.check(&request).into_result()?;
//! println!("{:?} requests remain", verdict.remaining());
//! # assert_eq!((verdict.rule(), verdict.remaining()), (Some("per-user"), Some(99)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | use |
//! | --- | --- |
//! | limit by a key | [`Limiter::per_key`] |
//! | limit requests by rules | [`Limiter::builder`], or [`Limiter::from_file`] with a policy file (feature `yaml`) |
//! | limit an axum, hyper or tonic service | [`limiter.layer()`](AsyncLimiter::layer), see [`tower`] (features `tower`, `axum`, `tonic`) |
//! | pace and retry requests to other services | [`client::ClientLayer`] (feature `client`) |
//! | share counters between instances | [`AsyncLimiter::connect`] with Redis, Valkey or a cluster (feature `redis`) |
//! | wait until a request is allowed | [`acquire`](AsyncLimiter::acquire) with a [timer](clock::Timer) (feature `tokio`: [`TokioTimer`]) |
//! | limit concurrency | `rule(..).concurrency(3)` and [`permit`](Limiter::permit), which returns a [`Permit`] |
//! | charge a cost that is known later | `rule(..).estimate(100)` and [`Permit::settle`], or [`TrueCost`](tower::TrueCost) in a handler |
//! | let several rules charge one limit at different costs | [`budget`] |
//! | read the warnings of a policy | [`AsyncLimiter::warnings`] |
//! | inspect, reset or override a key | [`inspect_key`](AsyncLimiter::inspect_key), [`reset_key`](AsyncLimiter::reset_key), [`override_key`](AsyncLimiter::override_key) |
//! | test with a manual clock | [`ManualClock`] |
//!
//! A [`Verdict`] is the result for a request: the action, the [rule](Verdict::rule) that decided, and the state of every
//! rule. It renders the [RateLimit headers](Verdict::fields) and the [problem details](Verdict::problem_json) of a response.
//! A refusal is the error [`Refused`]. (The result of one charge in a store is a [`Decision`](quota::Decision), that of
//! several an [`Outcome`](store::Outcome).)
//!
//! Tests move a [`ManualClock`]:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{AlgorithmKind, Limiter, ManualClock, Request, rule};
//!
//! let clock = ManualClock::at(1_000_000_000); // nanoseconds since 1970
//! let login = rule("login").per("client_ip").limit("1/min").algorithm(AlgorithmKind::SlidingWindowLog);
//! let limiter = Limiter::builder().rule(login).build_with_clock(clock.clone())?;
//! let request = Request::from_peer(Some("203.0.113.9".parse()?));
//! assert!(limiter.check(&request).is_allowed());
//! assert_eq!(limiter.check(&request).retry_after(), Some(Duration::from_secs(60)));
//! clock.advance(Duration::from_secs(60));
//! assert!(limiter.check(&request).is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! None is enabled by default.
//!
//! | feature | adds |
//! | --- | --- |
//! | `yaml` | policy files |
//! | `jwt` | identities from signed tokens |
//! | `tokio` | [`TokioTimer`] for waiting |
//! | `tower` | the [layer](tower); includes `tokio` |
//! | `client` | the [layer for clients](client); includes `tower` |
//! | `axum`, `tonic` | the peer's address as axum and tonic provide it, refusals as axum responses; include `tower` |
//! | `redis`, `redis-tls` | shared counters, and TLS to them; include `tokio` |
//!
//! # Without a policy
//!
//! A [`MemoryStore`] checks [quotas](Quota) by key, in some tens of nanoseconds:
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
//! - A [`Rate`] is parsed from text: `100/s`, `10 per 30s`, `60/min burst 100`.
//! - A [`Quota`] is a rate under an algorithm: token bucket, leaky bucket, windows, concurrency.
//! - A [`MemoryStore`] counts by [key](store::Key): a name, an address, or several parts. It is shared by all threads,
//!   exact among them, and bounded by its [capacity](store::Capacity); [`WhenFull`](store::WhenFull) sets what happens
//!   when it is full of live keys.
//! - A [`Decision`](quota::Decision) has the result of a charge, what remains and when to retry, in nanoseconds.
//! - A [`ChargeReceipt`](store::ChargeReceipt) refunds a charge, settles it to its true cost, or releases a permit, once.
//! - [`MemoryStore::acquire`] waits for its turn: in the queue of a leaky bucket, or under a token bucket that grants
//!   future tokens ([`Quota::with_reservations`]).

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "redis")]
mod connect;
pub mod fields;
mod holding_time;
pub mod limiter;
mod permit;
mod receipt;
#[cfg(feature = "tower")]
pub mod tower;
pub mod verdict;

pub use limiter::{AsyncLimiter, KeyLimiter, Limiter, LimiterBuilder, LimiterError};
pub use permit::Permit;
pub use receipt::Receipt;
pub use tollgate_core::{AlgorithmKind, Quota, Rate};
pub use tollgate_policy::model::IdentitySource;
pub use tollgate_policy::{self as policy, Request, budget, rule};
#[cfg(feature = "tokio")]
pub use tollgate_store::TokioTimer;
pub use tollgate_store::{ManualClock, MemoryOptions, MemoryStore, RealClock};
pub use verdict::{Action, Refused, Verdict};

/// The names that nearly all programs use: `use tollgate::prelude::*;`.
pub mod prelude {
    #[cfg(feature = "tokio")]
    pub use crate::TokioTimer;
    #[cfg(feature = "tower")]
    pub use crate::tower::{TollgateLayer, TrueCost};
    pub use crate::{
        Action, AlgorithmKind, AsyncLimiter, IdentitySource, Limiter, ManualClock, Permit, Refused, Request, Verdict,
        budget, rule,
    };
}

/// Quotas, rates and decisions: the algorithms without a policy.
pub mod quota {
    pub use tollgate_core::{
        AlgorithmKind, ChargeVerdict, Decision, MAX_AMOUNT, MAX_SPAN_NS, ParseRateError, Queue, Quota, QuotaError,
        Rate, RateError, Settlement, Tick, max_admitted, max_admitted_without_delays,
    };
}

/// Clocks and timers, real and manual.
pub mod clock {
    #[cfg(feature = "tokio")]
    pub use tollgate_store::TokioTimer;
    pub use tollgate_store::{Clock, ManualClock, ManualSleep, RealClock, Timer};
}

/// The memory store, and the interface of custom stores.
pub mod store {
    pub use crate::limiter::{memory_options, memory_store};
    pub use tollgate_store::{
        AcquireError, Acquired, BoxFuture, BuildError, Capacity, ChangeError, Charge, ChargeMode, ChargeReceipt,
        DecidedCharges, Key, KeyHash, KeyHasher, Limit, LimitError, LimitOptions, MemoryOptions, MemoryStore,
        OnFailure, Outcome, Refusals, RestoreError, RestoreSummary, SharedOverrides, SnapshotSummary, Source, Stats,
        Store, StoreAdmin, StoredOverride, Wait, WhenFull,
    };
}

/// The shared store on Redis, Valkey and Redis Cluster, and regions.
#[cfg(feature = "redis")]
pub mod redis {
    pub use crate::connect::{ConnectError, redis_store, regional_memory_store};
    pub use tollgate_redis::*;
}
