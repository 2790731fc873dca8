//! The exchange of a region in memory: what its instance stores for itself is in this process.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use tollgate_store::BoxFuture;

use crate::regions::{Exchange, ExchangeServer, HashOp, HashReply, HashServer};

/// Keeps the hashes of the region, and passes calls to the global server on.
pub(super) struct MemoryExchange {
    region: Mutex<HashServer>,
    started: Instant,
    global: Arc<dyn Exchange>,
}

impl MemoryExchange {
    pub(super) fn new(global: Arc<dyn Exchange>) -> MemoryExchange {
        MemoryExchange { region: Mutex::default(), started: Instant::now(), global }
    }
}

impl Exchange for MemoryExchange {
    fn run(&self, server: ExchangeServer, name: String, op: HashOp) -> BoxFuture<'_, Option<(u64, HashReply)>> {
        match server {
            ExchangeServer::Global => self.global.run(server, name, op),
            ExchangeServer::Regional => Box::pin(async move {
                // Only differences of these times matter.
                let now_us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
                let mut region = self.region.lock().unwrap_or_else(PoisonError::into_inner);
                Some((now_us, region.run(&name, op, now_us)))
            }),
        }
    }
}
