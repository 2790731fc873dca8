//! What the store finds when it begins: asked once, and told.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::store::Inner;
use crate::store::report::server_watch::watch_servers;
use crate::store::report::stats::StoreEvent;
use crate::transport::{Cause, Slot};

/// How long the first connections may take before somebody hears that there are none.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is asked until then, and from then on.
const ASK_EVERY: Duration = Duration::from_millis(50);
const THEN_EVERY: Duration = Duration::from_secs(1);
/// How long an answer is waited for.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

impl Inner {
    /// Reports in the background whether the servers answer, before the first request, and checks them from then on.
    pub(in crate::store) fn tell_beginning(self: &Arc<Self>) {
        self.runtime.spawn(tell(Arc::downgrade(self)));
    }

    /// Whether all servers can be reached, and one of them answers.
    async fn answers(&self) -> Result<(), Cause> {
        self.probe(Slot(0), ANSWERED_WITHIN).await?;
        match self.transport.servers().unreached.is_empty() {
            true => Ok(()),
            false => Err(Cause::Connection),
        }
    }
}

async fn tell(store: Weak<Inner>) {
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        let Some(inner) = store.upgrade() else { return };
        match inner.answers().await {
            Ok(()) => {
                // Whoever closes a breaker tells of it.
                if !is_told || inner.counters.breakers_opened.read() == 0 {
                    (inner.on_change)(StoreEvent::Reached { servers: inner.transport.servers().all });
                }
                if !is_told {
                    inner.runtime.spawn(watch_servers(store));
                }
                return;
            }
            Err(failure) if !is_told && begun.elapsed() >= PATIENCE => {
                is_told = true;
                let servers = inner.transport.servers();
                let servers = if servers.unreached.is_empty() { servers.all } else { servers.unreached };
                (inner.on_change)(StoreEvent::Unreached { servers, cause: failure.name() });
                inner.runtime.spawn(watch_servers(store.clone()));
            }
            Err(_) => {}
        }
        drop(inner);
        sleep(if is_told { THEN_EVERY } else { ASK_EVERY }).await;
    }
}
