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
pub(in crate::store) async fn run_health_checks(store: Weak<Inner>) {
    loop {
        let Some(inner) = store.upgrade() else { return };
        inner.check_servers(Instant::now());
        drop(inner);
        sleep(INTERVAL).await;
    }
}

impl Inner {
    /// Removes servers that own no slot, and probes the servers on which no call has succeeded or failed since the last
    /// check.
    pub(in crate::store) fn check_servers(self: &Arc<Self>, now: Instant) {
        self.report_paid_debts(now);
        let shards = self.transport.shards();
        if shards.is_empty() {
            // The topology is unknown, so no server can have left it.
            return;
        }
        for (_, server) in self.breakers.retain_shards(&shards) {
            (self.on_event)(StoreEvent::ServerLeft { server });
        }
        for (shard, slot) in shards {
            if self.breakers.is_idle(shard, now, INTERVAL) {
                self.probe_idle_server(shard, slot, now);
            }
        }
    }

    fn report_paid_debts(&self, now: Instant) {
        if let Some((debts, amount)) = self.paid_debts.take(now) {
            let still_owing = self.debts.count() as u64;
            (self.on_event)(StoreEvent::DebtsPaid { debts, amount, still_owing });
        }
    }

    /// Sends an empty call. Its outcome counts for the breaker like that of a decision.
    fn probe_idle_server(self: &Arc<Self>, shard: ShardId, slot: Slot, now: Instant) {
        let timeout = self.settings.deadline;
        let Some(tracked) = self.admit_to(shard, slot, now, now + timeout) else { return };
        let store = Arc::clone(self);
        self.runtime.spawn(async move {
            let answered = store.probe_shard(shard, slot, timeout).await;
            let now = Instant::now();
            store.on_call_done(&tracked, now);
            match answered {
                Ok(()) => store.on_call_answered(&tracked, now),
                Err(failure) => store.on_call_failed(&tracked, failure, now),
            }
        });
    }
}
