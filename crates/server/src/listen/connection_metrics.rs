use std::sync::{Mutex, PoisonError};

use super::connection_slots::SlotRefusal;
use super::stream::HandshakeError;
use crate::metrics::counter::{CounterMetric, GaugeMetric};
use crate::metrics::exposition::{Exposition, MetricKind};

/// Connection metrics of all listeners.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMetrics {
    listeners: Mutex<Vec<ListenerMetrics>>,
    waits: ShareMetrics,
}

/// How often reading paused until the address released resources.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShareMetrics {
    pub(super) request_waits: CounterMetric,
    pub(super) response_waits: CounterMetric,
    pub(super) call_waits: CounterMetric,
}

/// Connection metrics of one listener. Counting takes no lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerMetrics {
    listener: &'static str,
    pub(super) open: GaugeMetric,
    pub(super) accepted: CounterMetric,
    pub(super) accept_errors: CounterMetric,
    plaintext_handshakes: CounterMetric,
    failed_handshakes: CounterMetric,
    timed_out_handshakes: CounterMetric,
    refused_in_all: CounterMetric,
    refused_for_address: CounterMetric,
    refused_for_descriptor: CounterMetric,
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
        let ShareMetrics { request_waits, response_waits, call_waits } = &self.waits;
        let waits = [("request_bytes", request_waits), ("answer_bytes", response_waits), ("calls", call_waits)];
        exposition.counter_by(
            "tollgate_backpressure_waits_total",
            "Requests that waited until their address, or all addresses together, used less memory or fewer calls.",
            "resource",
            waits.map(|(resource, waits)| (resource, waits.get())),
        );
    }
}

fn write_listeners(listeners: &[ListenerMetrics], exposition: &mut Exposition<'_>) {
    let mut write = |name: &str, kind: MetricKind, help: &str, value: &dyn Fn(&ListenerMetrics) -> u64| {
        exposition.describe(name, kind, help);
        for listener in listeners {
            exposition.sample(name, &[("listener", listener.listener)], value(listener));
        }
    };
    write("tollgate_connections", MetricKind::Gauge, "Open connections.", &|listener| listener.open.get());
    write("tollgate_connections_accepted_total", MetricKind::Counter, "Accepted connections.", &|listener| {
        listener.accepted.get()
    });
    let help = "Failed accept calls: descriptors may have run out.";
    write("tollgate_accept_errors_total", MetricKind::Counter, help, &|listener| listener.accept_errors.get());
    write_failed_handshakes(listeners, exposition);
    write_refused(listeners, exposition);
}

fn write_failed_handshakes(listeners: &[ListenerMetrics], exposition: &mut Exposition<'_>) {
    const NAME: &str = "tollgate_tls_handshake_errors_total";
    exposition.describe(NAME, MetricKind::Counter, "TLS handshakes that failed, by listener and reason.");
    for metrics in listeners {
        let by_reason = [
            ("plaintext", &metrics.plaintext_handshakes),
            ("failed", &metrics.failed_handshakes),
            ("timeout", &metrics.timed_out_handshakes),
        ];
        for (reason, count) in by_reason {
            exposition.sample(NAME, &[("listener", metrics.listener), ("reason", reason)], count.get());
        }
    }
}

fn write_refused(listeners: &[ListenerMetrics], exposition: &mut Exposition<'_>) {
    const NAME: &str = "tollgate_connections_refused_total";
    let help = "Connections closed immediately: too many in total, from their address, or for the file descriptors of the process.";
    exposition.describe(NAME, MetricKind::Counter, help);
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
    /// Counts a failed TLS handshake; without an error it timed out.
    pub(super) fn count_failed_handshake(&self, error: Option<&HandshakeError>) {
        match error {
            Some(HandshakeError::Plaintext) => self.plaintext_handshakes.inc(),
            Some(HandshakeError::Failed(_)) => self.failed_handshakes.inc(),
            None => self.timed_out_handshakes.inc(),
        }
    }

    pub(super) fn count_refused(&self, why: SlotRefusal) {
        match why {
            SlotRefusal::InAll => self.refused_in_all.inc(),
            SlotRefusal::ForAddress => self.refused_for_address.inc(),
            SlotRefusal::ForDescriptor => self.refused_for_descriptor.inc(),
        }
    }
}
