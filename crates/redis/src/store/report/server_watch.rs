//! Health checks of servers without traffic, and removal of servers that left the topology.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::store::Inner;
use crate::store::report::stats::StoreEvent;
use crate::transport::{ShardId, Slot};

/// The health check interval. Five failures in a row open a breaker, so a dead server is noticed within three seconds.
const INTERVAL: Duration = Duration::from_millis(500);

/// Checks the servers of a store until the store is dropped.
pub(in crate::store) async fn watch_servers(store: Weak<Inner>) {
    loop {
        let Some(inner) = store.upgrade() else { return };
        inner.check_servers(Instant::now());
        drop(inner);
        sleep(INTERVAL).await;
    }
}

impl Inner {
    /// Forgets servers that own no slot, and probes those that no call has reached since the last check.
    pub(in crate::store) fn check_servers(self: &Arc<Self>, now: Instant) {
        self.report_payments(now);
        let shards = self.transport.shards();
        if shards.is_empty() {
            // The topology is unknown, so no server can have left it.
            return;
        }
        for (_, server) in self.breakers.retain_shards(&shards) {
            (self.on_change)(StoreEvent::ServerLeft { server });
        }
        for (shard, slot) in shards {
            if self.breakers.is_idle(shard, now, INTERVAL) {
                self.probe_idle_server(shard, slot, now);
            }
        }
    }

    fn report_payments(&self, now: Instant) {
        if let Some((debts, amount)) = self.payments.take(now) {
            let still_owing = self.debts.count() as u64;
            (self.on_change)(StoreEvent::DebtsPaid { debts, amount, still_owing });
        }
    }

    /// Sends an empty call. Its outcome counts for the breaker like that of a decision.
    fn probe_idle_server(self: &Arc<Self>, shard: ShardId, slot: Slot, now: Instant) {
        let patience = self.settings.deadline;
        let Some(watch) = self.admit_to(shard, slot, now, now + patience) else { return };
        let store = Arc::clone(self);
        self.runtime.spawn(async move {
            let answered = store.probe(slot, patience).await;
            let now = Instant::now();
            store.call_done(&watch, now);
            match answered {
                Ok(()) => store.call_answered(&watch, now),
                Err(failure) => store.call_failed(&watch, failure, now),
            }
        });
    }
}
