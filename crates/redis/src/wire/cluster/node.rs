use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::transport::ShardId;
use crate::wire::cluster::node_clock::NodeClock;
use crate::wire::connection::address::Address;
use crate::wire::connection::call_queue::CallQueue;
use crate::wire::connection::link::{LinkTerms, keep_connected};
use crate::wire::protocol::command::Command;

/// One server, and the connections to it.
pub(crate) struct Node {
    pub(crate) id: ShardId,
    pub(crate) address: Address,
    pub(crate) clock: Arc<NodeClock>,
    /// What waits for each of its connections.
    links: Box<[Arc<CallQueue>]>,
    next: AtomicUsize,
}

impl Node {
    pub(crate) fn start(runtime: &Handle, id: ShardId, address: Address, links: usize, terms: &LinkTerms) -> Node {
        let clock = Arc::new(NodeClock::new(Instant::now()));
        let link = |_| keep_connected(runtime, address.clone(), terms.clone(), Arc::clone(&clock));
        let links = (0..links).map(link).collect();
        Node { id, address, clock, links, next: AtomicUsize::new(0) }
    }

    /// Sends over a connection that is up, in turn; if none is, the next one says why.
    pub(crate) fn push(&self, command: Box<dyn Command>) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = |offset: usize| self.links.get(turn.wrapping_add(offset) % self.links.len().max(1));
        // A single one is up or says why it is not: there is no choice to make.
        let others = if self.links.len() > 1 { self.links.len() } else { 0 };
        let up = (0..others).filter_map(in_turn).find(|link| link.is_up());
        if let Some(link) = up.or_else(|| in_turn(0)) {
            link.push(command);
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.links.iter().any(|link| link.is_up())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.links.iter().for_each(|link| link.close());
    }
}
