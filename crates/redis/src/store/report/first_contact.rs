//! Probes the servers after the start, and reports whether they reply.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::store::Inner;
use crate::store::report::health_checks::run_health_checks;
use crate::store::report::stats::StoreEvent;
use crate::transport::{Cause, Slot};

/// The time after the start at which unreachable servers are reported.
const REPORT_AFTER: Duration = Duration::from_secs(2);
/// The interval of probes until then, and after that.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);
const SLOW_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

impl Inner {
    /// Reports in the background whether the servers reply, without waiting for a request, and then starts the health
    /// checks.
    pub(in crate::store) fn report_first_contact(self: &Arc<Self>) {
        self.runtime.spawn(probe_until_reached(Arc::downgrade(self)));
    }

    /// Checks that all servers can be reached, and that one of them replies.
    async fn probe_all(&self) -> Result<(), Cause> {
        self.probe(Slot(0), PROBE_TIMEOUT).await?;
        match self.transport.servers().unreachable.is_empty() {
            true => Ok(()),
            false => Err(Cause::Connection),
        }
    }
}

async fn probe_until_reached(store: Weak<Inner>) {
    let started = Instant::now();
    let mut is_reported = false;
    loop {
        let Some(inner) = store.upgrade() else { return };
        match inner.probe_all().await {
            Ok(()) => {
                // If a breaker has opened, its closing was reported instead.
                if !is_reported || inner.counters.breakers_opened.read() == 0 {
                    (inner.on_event)(StoreEvent::Reached { servers: inner.transport.servers().all });
                }
                if !is_reported {
                    inner.runtime.spawn(run_health_checks(store));
                }
                return;
            }
            Err(failure) if !is_reported && started.elapsed() >= REPORT_AFTER => {
                is_reported = true;
                let servers = inner.transport.servers();
                let servers = if servers.unreachable.is_empty() { servers.all } else { servers.unreachable };
                (inner.on_event)(StoreEvent::Unreached { servers, cause: failure.name() });
                inner.runtime.spawn(run_health_checks(store.clone()));
            }
            Err(_) => {}
        }
        drop(inner);
        sleep(if is_reported { SLOW_PROBE_INTERVAL } else { PROBE_INTERVAL }).await;
    }
}
