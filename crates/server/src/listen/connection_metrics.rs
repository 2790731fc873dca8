use std::sync::{Mutex, PoisonError};

use super::connection_slots::SlotRefusal;
use crate::metrics::counter::{Counter, Gauge};
use crate::metrics::exposition::{Exposition, Kind};

/// What is counted about connections, for all listeners.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMetrics {
    listeners: Mutex<Vec<ListenerMetrics>>,
    waits: ShareMetrics,
}

/// How often a connection was not read further until its address had given something back.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShareMetrics {
    pub(super) request_waits: Counter,
    pub(super) answer_waits: Counter,
    pub(super) call_waits: Counter,
}

/// What is counted about the connections of one listener, at hand so that counting takes no lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerMetrics {
    listener: &'static str,
    pub(super) open: Gauge,
    pub(super) accepted: Counter,
    pub(super) accept_errors: Counter,
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub(super) handshake_errors: Counter,
    refused_in_all: Counter,
    refused_for_address: Counter,
    refused_for_descriptor: Counter,
}

impl ConnectionMetrics {
    pub(crate) fn of_shares(&self) -> ShareMetrics {
        self.waits.clone()
    }

    pub(crate) fn of_listener(&self, listener: &'static str) -> ListenerMetrics {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = listeners.iter().find(|known| known.listener == listener) {
            return known.clone();
        }
        let new = ListenerMetrics { listener, ..ListenerMetrics::default() };
        listeners.push(new.clone());
        new
    }

    pub(crate) fn write(&self, exposition: &mut Exposition<'_>) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        write_listeners(&listeners, exposition);
        let ShareMetrics { request_waits, answer_waits, call_waits } = &self.waits;
        let waits = [("request_bytes", request_waits), ("answer_bytes", answer_waits), ("calls", call_waits)];
        exposition.counter_by(
            "tollgate_backpressure_waits_total",
            "Requests that waited until their address, or all together, held less.",
            "resource",
            waits.map(|(resource, waits)| (resource, waits.get())),
        );
    }
}

fn write_listeners(listeners: &[ListenerMetrics], exposition: &mut Exposition<'_>) {
    let mut write = |name: &str, kind: Kind, help: &str, value: &dyn Fn(&ListenerMetrics) -> u64| {
        exposition.describe(name, kind, help);
        for listener in listeners {
            exposition.sample(name, &[("listener", listener.listener)], value(listener));
        }
    };
    write("tollgate_connections", Kind::Gauge, "Connections that are open.", &|listener| listener.open.get());
    write("tollgate_connections_accepted_total", Kind::Counter, "Connections that were given a place.", &|listener| {
        listener.accepted.get()
    });
    let help = "Connections that could not be accepted: descriptors may have run out.";
    write("tollgate_accept_errors_total", Kind::Counter, help, &|listener| listener.accept_errors.get());
    let help = "Connections that did not get through the TLS handshake.";
    write("tollgate_tls_handshake_errors_total", Kind::Counter, help, &|listener| listener.handshake_errors.get());
    write_refused(listeners, exposition);
}

fn write_refused(listeners: &[ListenerMetrics], exposition: &mut Exposition<'_>) {
    const NAME: &str = "tollgate_connections_refused_total";
    let help =
        "Connections closed at once: too many in all, from their address, or for the descriptors of the process.";
    exposition.describe(NAME, Kind::Counter, help);
    for metrics in listeners {
        let by_reason = [
            ("in_all", &metrics.refused_in_all),
            ("for_address", &metrics.refused_for_address),
            ("descriptors", &metrics.refused_for_descriptor),
        ];
        for (reason, refused) in by_reason {
            exposition.sample(NAME, &[("listener", metrics.listener), ("reason", reason)], refused.get());
        }
    }
}

impl ListenerMetrics {
    pub(super) fn count_refused(&self, why: SlotRefusal) {
        match why {
            SlotRefusal::InAll => self.refused_in_all.inc(),
            SlotRefusal::ForAddress => self.refused_for_address.inc(),
            SlotRefusal::ForDescriptor => self.refused_for_descriptor.inc(),
        }
    }
}
