use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::Handle;

use super::address::Address;
use super::command::Command;
use super::link::{Link, LinkTerms};
use crate::transport::ShardId;

/// One server, and the connections to it.
pub(crate) struct Node {
    pub(crate) id: ShardId,
    pub(crate) address: Address,
    links: Box<[Link]>,
    next: AtomicUsize,
}

impl Node {
    pub(crate) fn start(runtime: &Handle, id: ShardId, address: Address, links: usize, terms: &LinkTerms) -> Node {
        let links = (0..links).map(|_| Link::start(runtime, address.clone(), terms.clone())).collect();
        Node { id, address, links, next: AtomicUsize::new(0) }
    }

    /// Sends over a connection that is up, in turn; if none is, the next one says why.
    pub(crate) fn push(&self, command: Box<dyn Command>) {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = (0..self.links.len()).filter_map(|offset| self.links.get((next + offset) % self.links.len()));
        let mut candidates = in_turn.clone().filter(|link| link.is_up()).chain(in_turn.clone());
        match self.links.first() {
            // The usual case needs no choice.
            Some(only) if self.links.len() == 1 => only.push(command),
            _ => {
                if let Some(link) = candidates.next() {
                    link.push(command);
                }
            }
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.links.iter().any(Link::is_up)
    }
}
