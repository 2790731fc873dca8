//! The topology: which node owns which slot, and how that is kept up to date, for a cluster, for a primary monitored by
//! sentinels, and for a single server.

pub(super) mod cluster_slots;
pub(super) mod directory;
pub(super) mod key_slot;
pub(super) mod node;
pub(super) mod node_clock;
pub(super) mod topology_refresher;
