//! Circuit breakers: a shard that fails gets no calls until a probe succeeds.

pub(super) mod shards;
pub(super) mod state;
mod write_probe;
