//! Counters that several instances share: on Redis, Valkey or a cluster of them.
//!
//! A [`RedisStore`] is behind the same interface as the store in memory. What it
//! promises, what it needs and what it does without its servers is told in
//! `docs/redis.md`.

// The road of a check: `store` groups charges by slot and decides what is sent,
// joined, remembered and given back; `script` turns a `Call` into one script
// call and its answer back into decisions; the client in `wire` is the transport
// that brings it to the servers. `sim` plays all of it over another transport, in
// virtual time. Beside it, `admin` is what operators do: `overrides` is where
// instances tell each other of it, and `agreement` where they find out whether
// they count under the same keys.

mod admin;
mod agreement;
mod call;
mod overrides;
mod resp_value;
mod script;
#[cfg(test)]
mod sim;
mod store;
mod transport;
mod wire;

pub use store::{BreakerSettings, BreakerState, CallDurations, RedisStore, StoreEvent, StoreSettings, StoreStats};
pub use wire::{OptionsError, Password, RedisMode, RedisOptions, TlsOptions};
