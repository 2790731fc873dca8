//! Counters that several instances share: on Redis, Valkey or a cluster of them.
//!
//! A [`RedisStore`] is behind the same interface as the store in memory. What it
//! promises, what it needs and what it does without its servers is told in
//! `docs/redis.md`.

// The road of a check: `store` groups charges by slot and decides what is sent,
// joined, remembered and given back; `script` turns a `Call` into one script
// call and its answer back into decisions; `transport` brings it to the servers,
// over the client in `wire`. `sim` plays all of it in virtual time. Beside it,
// `overrides` is where instances tell each other what an operator has done, and
// `agreement` where they find out whether they count under the same keys.

mod agreement;
mod call;
mod overrides;
mod redis_store;
mod resp_value;
mod script;
#[cfg(test)]
mod sim;
mod store;
mod transport;
mod wire;

pub use redis_store::RedisStore;
pub use store::{BreakerSettings, BreakerState, CallDurations, StoreEvent, StoreSettings, StoreStats};
pub use wire::{OptionsError, Password, RedisMode, RedisOptions, TlsOptions};
