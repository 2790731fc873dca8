use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::transport::ShardId;
use crate::wire::cluster::node_clock::NodeClock;
use crate::wire::connection::address::Address;
use crate::wire::connection::call_queue::CallQueue;
use crate::wire::connection::link::{LinkSettings, keep_connected};
use crate::wire::protocol::command::ServerCommand;

/// One server, and the connections to it.
pub(crate) struct ClusterNode {
    pub(crate) id: ShardId,
    pub(crate) address: Address,
    pub(crate) clock: Arc<NodeClock>,
    /// The call queue of each connection.
    links: Box<[Arc<CallQueue>]>,
    next: AtomicUsize,
}

impl ClusterNode {
    /// Starts connecting.
    pub(crate) fn start(
        runtime: &Handle,
        id: ShardId,
        address: Address,
        links: usize,
        settings: &LinkSettings,
    ) -> ClusterNode {
        let clock = Arc::new(NodeClock::new(Instant::now()));
        let link = |_| keep_connected(runtime, address.clone(), settings.clone(), Arc::clone(&clock));
        let links = (0..links).map(link).collect();
        ClusterNode { id, address, clock, links, next: AtomicUsize::new(0) }
    }

    /// Sends a command over the connected links in turn. If none is connected, the next link fails it with its cause.
    pub(crate) fn push(&self, command: Box<dyn ServerCommand>) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = |offset: usize| self.links.get(turn.wrapping_add(offset) % self.links.len().max(1));
        // With a single link there is no choice to make.
        let others = if self.links.len() > 1 { self.links.len() } else { 0 };
        let up = (0..others).filter_map(in_turn).find(|link| link.is_up());
        if let Some(link) = up.or_else(|| in_turn(0)) {
            link.push(command);
        }
    }

    /// Returns whether at least one connection is up.
    pub(crate) fn is_up(&self) -> bool {
        self.links.iter().any(|link| link.is_up())
    }
}

impl Drop for ClusterNode {
    fn drop(&mut self) {
        self.links.iter().for_each(|link| link.close());
    }
}
