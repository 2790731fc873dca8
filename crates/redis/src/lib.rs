//! Counters that several instances share: on Redis, Valkey or a cluster of them.
//!
//! The road of a check: [`store`] groups charges by slot and decides what is
//! sent, joined, remembered and given back; [`script`] turns a [`call::Call`]
//! into one script call and its answer back into decisions; a
//! [`transport::Transport`] carries it.

mod call;
mod carrier;
mod redis_store;
mod resp_value;
mod script;
#[cfg(test)]
mod sim;
mod store;
mod transport;
mod wire;

pub use redis_store::RedisStore;
pub use store::{BreakerSettings, BreakerState, RedisLimit, RedisReceipt, StoreEvent, StoreSettings, StoreStats};
pub use wire::{OptionsError, Password, RedisMode, RedisOptions, TlsOptions};
