use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::runtime::Handle;

use crate::transport::{Servers, ShardId, Slot};
use crate::wire::cluster::node::Node;
use crate::wire::connection::address::Address;
use crate::wire::connection::link::LinkTerms;

/// The owner of a slot that nobody is known to own.
const NOBODY: u32 = u32::MAX;

/// Which servers there are, and who owns which slot.
pub(crate) struct Directory {
    owners: Box<[AtomicU32]>,
    nodes: RwLock<Nodes>,
    runtime: Handle,
    links_per_node: usize,
    terms: LinkTerms,
}

#[derive(Default)]
struct Nodes {
    by_id: HashMap<ShardId, Arc<Node>>,
    by_address: HashMap<Address, Arc<Node>>,
    next_id: u32,
    /// Nothing is connected to any more.
    is_closed: bool,
}

impl Directory {
    pub(crate) fn new(slots: usize, links_per_node: usize, terms: LinkTerms) -> Directory {
        let owners = (0..slots).map(|_| AtomicU32::new(NOBODY)).collect();
        Directory { owners, nodes: RwLock::default(), runtime: Handle::current(), links_per_node, terms }
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.owners.len()
    }

    /// Who owns a slot, if that is known.
    pub(crate) fn owner(&self, slot: Slot) -> Option<Arc<Node>> {
        self.read().by_id.get(&self.owner_id(slot)).map(Arc::clone)
    }

    pub(crate) fn owner_id(&self, slot: Slot) -> ShardId {
        ShardId(self.owners.get(usize::from(slot.0)).map_or(NOBODY, |owner| owner.load(Ordering::Relaxed)))
    }

    /// Every owner, with the first of its slots.
    pub(crate) fn shards(&self) -> Vec<(ShardId, Slot)> {
        let mut shards: Vec<(ShardId, Slot)> = Vec::new();
        for (slot, owner) in (0..).map(Slot).zip(&self.owners) {
            let id = ShardId(owner.load(Ordering::Relaxed));
            // Slots lie in long ranges, so the owner is nearly always the last.
            let is_known = shards.last().is_some_and(|last| last.0 == id) || shards.iter().any(|known| known.0 == id);
            if id.0 != NOBODY && !is_known {
                shards.push((id, slot));
            }
        }
        shards
    }

    /// The server at an address, which is connected to if it is new. Nothing once all is closed.
    pub(crate) fn node(&self, address: &Address) -> Option<Arc<Node>> {
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
        let node = Arc::new(Node::start(&self.runtime, id, address.clone(), self.links_per_node, &self.terms));
        nodes.by_id.insert(id, Arc::clone(&node));
        nodes.by_address.insert(address.clone(), Arc::clone(&node));
        Some(node)
    }

    pub(crate) fn set_owner(&self, slot: Slot, node: &Node) {
        if let Some(owner) = self.owners.get(usize::from(slot.0)) {
            owner.store(node.id.0, Ordering::Relaxed);
        }
    }

    /// Gives every slot the owner that a map says, and lets go of servers that own nothing.
    pub(crate) fn apply(&self, map: &SlotMap) {
        let mut ids = vec![NOBODY; self.owners.len()];
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

    /// The addresses of all owners, those first that are connected.
    pub(crate) fn known(&self) -> Vec<Address> {
        let mut known: Vec<_> =
            self.read().by_address.values().map(|node| (!node.is_up(), node.address.clone())).collect();
        known.sort();
        known.into_iter().map(|(_, address)| address).collect()
    }

    /// Where a server is, if it is still known.
    pub(crate) fn address(&self, shard: ShardId) -> Option<Address> {
        self.read().by_id.get(&shard).map(|node| node.address.clone())
    }

    /// All owners, and those of them that are not connected.
    pub(crate) fn servers(&self) -> Servers {
        let mut servers = Servers::default();
        for node in self.read().by_address.values() {
            servers.all.push(node.address.to_string());
            if !node.is_up() {
                servers.unreached.push(node.address.to_string());
            }
        }
        servers.all.sort();
        servers.unreached.sort();
        servers
    }

    /// Whether every slot has an owner that is connected.
    pub(crate) fn is_whole(&self) -> bool {
        let nodes = self.read();
        !nodes.by_id.is_empty()
            && nodes.by_id.values().all(|node| node.is_up())
            && self.owners.iter().all(|owner| owner.load(Ordering::Relaxed) != NOBODY)
    }

    /// Ends all connections, when they have answered what they have taken.
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

/// Who owns which slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotMap {
    pub(crate) ranges: Vec<SlotRange>,
}

/// Slots in a row, with both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) owner: Address,
}
