//! Counters that several instances share: on Redis, Valkey or a cluster of either.
//!
//! A [`RedisStore`] implements the same interface as the memory store. `docs/redis.md` states its guarantees, its
//! requirements, and its behaviour while the servers are unreachable; `docs/leases.md` and `docs/regions.md` describe
//! leases and regions.

// The decision path: `store` groups charges by slot, joins equal requests into one call, caches refusals and sends
// refunds; `script` encodes a `Call` as one script call and decodes the reply into decisions; the client in `wire` is
// the transport to the servers. `sim` runs all of it over another transport, in virtual time.
//
// The admin operations are in `admin`: `overrides` shares overrides and resets between instances, and `fingerprint`
// checks that all instances hash secret values under the same key. `regions` divides limits among regions: it refills
// their keys at the rate that this region enforces, and exchanges reports with the other regions. `region_in_memory` is
// the store of a region whose counters are in this process.

mod admin;
mod call;
mod fingerprint;
mod overrides;
mod region_in_memory;
mod regions;
mod resp_value;
mod script;
#[cfg(test)]
mod sim;
mod store;
mod transport;
mod wire;

pub use region_in_memory::RegionalMemoryStore;
pub use regions::{MissingShare, RegionDivision, RegionSettings, RegionStatus};
pub use store::{BreakerSettings, BreakerState, CallDurations, RedisStore, RedisStoreSettings, StoreEvent, StoreStats};
pub use wire::{OptionsError, Password, RedisMode, RedisOptions, TlsOptions};
