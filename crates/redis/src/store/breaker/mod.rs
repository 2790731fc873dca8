//! Circuit breakers: a shard that fails is not asked until a probe is answered.

pub(super) mod shards;
pub(super) mod state;
