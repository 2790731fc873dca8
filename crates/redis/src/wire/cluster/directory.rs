use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::runtime::Handle;

use crate::transport::{Servers, ShardId, Slot};
use crate::wire::cluster::node::ClusterNode;
use crate::wire::connection::address::Address;
use crate::wire::connection::link::LinkSettings;

/// The owner of a slot whose owner is not known.
const NO_OWNER: u32 = u32::MAX;

/// The known servers, and the owner of each slot.
pub(crate) struct Directory {
    owners: Box<[AtomicU32]>,
    nodes: RwLock<Nodes>,
    runtime: Handle,
    links_per_node: usize,
    link_settings: LinkSettings,
}

#[derive(Default)]
struct Nodes {
    by_id: HashMap<ShardId, Arc<ClusterNode>>,
    by_address: HashMap<Address, Arc<ClusterNode>>,
    next_id: u32,
    /// Whether the directory is closed. No further server is connected to.
    is_closed: bool,
}

impl Directory {
    pub(crate) fn new(slots: usize, links_per_node: usize, link_settings: LinkSettings) -> Directory {
        let owners = (0..slots).map(|_| AtomicU32::new(NO_OWNER)).collect();
        Directory { owners, nodes: RwLock::default(), runtime: Handle::current(), links_per_node, link_settings }
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.owners.len()
    }

    /// Returns the owner of a slot, if it is known.
    pub(crate) fn owner(&self, slot: Slot) -> Option<Arc<ClusterNode>> {
        self.read().by_id.get(&self.owner_id(slot)).map(Arc::clone)
    }

    /// Returns the number of the owner of a slot, or [`NO_OWNER`].
    pub(crate) fn owner_id(&self, slot: Slot) -> ShardId {
        ShardId(self.owners.get(usize::from(slot.0)).map_or(NO_OWNER, |owner| owner.load(Ordering::Relaxed)))
    }

    /// Returns every owner, with the first of its slots.
    pub(crate) fn shards(&self) -> Vec<(ShardId, Slot)> {
        let mut shards: Vec<(ShardId, Slot)> = Vec::new();
        for (slot, owner) in (0..).map(Slot).zip(&self.owners) {
            let id = ShardId(owner.load(Ordering::Relaxed));
            // Slots are assigned in long ranges, so the owner is nearly always the last one found.
            let is_known = shards.last().is_some_and(|last| last.0 == id) || shards.iter().any(|known| known.0 == id);
            if id.0 != NO_OWNER && !is_known {
                shards.push((id, slot));
            }
        }
        shards
    }

    /// Returns the server at an address, and connects to it if it is new. `None` if the directory is closed.
    pub(crate) fn node(&self, address: &Address) -> Option<Arc<ClusterNode>> {
        if let Some(node) = self.read().by_address.get(address) {
            return Some(Arc::clone(node));
        }
        let mut nodes = self.write();
        if nodes.is_closed {
            return None;
        }
        if let Some(node) = nodes.by_address.get(address) {
            return Some(Arc::clone(node));
        }
        let id = ShardId(nodes.next_id);
        nodes.next_id += 1;
        let node =
            Arc::new(ClusterNode::start(&self.runtime, id, address.clone(), self.links_per_node, &self.link_settings));
        nodes.by_id.insert(id, Arc::clone(&node));
        nodes.by_address.insert(address.clone(), Arc::clone(&node));
        Some(node)
    }

    pub(crate) fn set_owner(&self, slot: Slot, node: &ClusterNode) {
        if let Some(owner) = self.owners.get(usize::from(slot.0)) {
            owner.store(node.id.0, Ordering::Relaxed);
        }
    }

    /// Sets the owners of all slots from a slot map, and drops servers that own no slot.
    pub(crate) fn apply(&self, map: &SlotMap) {
        let mut ids = vec![NO_OWNER; self.owners.len()];
        for range in &map.ranges {
            let Some(node) = self.node(&range.owner) else { return };
            let (first, last) = (usize::from(range.first), usize::from(range.last).min(ids.len().saturating_sub(1)));
            if let Some(part) = ids.get_mut(first..=last) {
                part.fill(node.id.0);
            }
        }
        for (owner, &id) in self.owners.iter().zip(&ids) {
            owner.store(id, Ordering::Relaxed);
        }
        let mut nodes = self.write();
        nodes.by_id.retain(|id, _| ids.contains(&id.0));
        nodes.by_address.retain(|_, node| ids.contains(&node.id.0));
    }

    /// Returns the addresses of all known servers, the connected ones first.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        let mut addresses: Vec<_> =
            self.read().by_address.values().map(|node| (!node.is_up(), node.address.clone())).collect();
        addresses.sort();
        addresses.into_iter().map(|(_, address)| address).collect()
    }

    /// Returns the address of a server, if it is still known.
    pub(crate) fn address(&self, shard: ShardId) -> Option<Address> {
        self.read().by_id.get(&shard).map(|node| node.address.clone())
    }

    /// Returns all known servers, and those that are not connected.
    pub(crate) fn servers(&self) -> Servers {
        let mut servers = Servers::default();
        for node in self.read().by_address.values() {
            servers.all.push(node.address.to_string());
            if !node.is_up() {
                servers.unreachable.push(node.address.to_string());
            }
        }
        servers.all.sort();
        servers.unreachable.sort();
        servers
    }

    /// Returns whether every slot has a known owner, and all servers are connected.
    pub(crate) fn is_fully_connected(&self) -> bool {
        let nodes = self.read();
        !nodes.by_id.is_empty()
            && nodes.by_id.values().all(|node| node.is_up())
            && self.owners.iter().all(|owner| owner.load(Ordering::Relaxed) != NO_OWNER)
    }

    /// Closes all connections, after they have completed the calls that they have taken.
    pub(crate) fn close(&self) {
        let mut nodes = self.write();
        *nodes = Nodes { is_closed: true, next_id: nodes.next_id, ..Nodes::default() };
    }

    fn read(&self) -> RwLockReadGuard<'_, Nodes> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Nodes> {
        self.nodes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owners of all slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotMap {
    pub(crate) ranges: Vec<SlotRange>,
}

/// A range of slots, including both ends, and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) owner: Address,
}
