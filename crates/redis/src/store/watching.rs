//! Looks after the servers while no check does: who died, who is back, who has left.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Inner;
use super::stats::StoreEvent;
use crate::transport::{ShardId, Slot, Transport};

/// How often. A server that died is given up after five failures in a row, so within three seconds.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Looks after the servers of a store, and ends with it.
pub(super) async fn watch_servers<T: Transport>(store: Weak<Inner<T>>) {
    loop {
        let Some(inner) = store.upgrade() else { return };
        inner.look_after_servers(Instant::now());
        drop(inner);
        sleep(LOOK_EVERY).await;
    }
}

impl<T: Transport> Inner<T> {
    /// Forgets servers that own nothing any more, and tries those of whom nothing was heard since the last time.
    pub(super) fn look_after_servers(self: &Arc<Self>, now: Instant) {
        self.tell_payments(now);
        let shards = self.transport.shards();
        if shards.is_empty() {
            // Nobody is known, so nobody is known to have left.
            return;
        }
        for (_, server) in self.breakers.keep_only(&shards) {
            (self.on_change)(StoreEvent::ServerLeft { server });
        }
        for (shard, slot) in shards {
            if self.breakers.is_quiet(shard, now, LOOK_EVERY) {
                self.try_quiet_server(shard, slot, now);
            }
        }
    }

    fn tell_payments(&self, now: Instant) {
        if let Some(event) = self.payments.tell(self.debts.count(), now) {
            (self.on_change)(event);
        }
    }

    /// What becomes of an empty call counts as that of a check would.
    fn try_quiet_server(self: &Arc<Self>, shard: ShardId, slot: Slot, now: Instant) {
        let patience = self.settings.deadline;
        let Some(watch) = self.admit_to(shard, slot, now, now + patience) else { return };
        let store = Arc::clone(self);
        self.runtime.spawn(async move {
            let answered = store.probe(slot, patience).await;
            let now = Instant::now();
            store.call_heard_of(&watch, now);
            match answered {
                Ok(()) => store.call_answered(&watch, now),
                Err(failure) => store.call_failed(&watch, failure, now),
            }
        });
    }
}
