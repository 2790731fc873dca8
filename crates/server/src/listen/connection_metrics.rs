use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::listen::limits::places::NoPlace;

/// What is counted about connections, for all listeners.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionMetrics {
    open: Family<ListenerLabels, Gauge>,
    accepted: Family<ListenerLabels, Counter>,
    refused: Family<RefusalLabels, Counter>,
    accept_errors: Family<ListenerLabels, Counter>,
    handshake_errors: Family<ListenerLabels, Counter>,
    waits: Family<WaitLabels, Counter>,
}

/// How often a connection was not read further until its address had given something back.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShareMetrics {
    pub(super) request_waits: Counter,
    pub(super) answer_waits: Counter,
    pub(super) call_waits: Counter,
}

/// What is counted about the connections of one listener, at hand so that counting takes no lock.
#[derive(Clone, Debug)]
pub(crate) struct ListenerMetrics {
    pub(super) open: Gauge,
    pub(super) accepted: Counter,
    pub(super) accept_errors: Counter,
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub(super) handshake_errors: Counter,
    refused_in_all: Counter,
    refused_for_address: Counter,
    refused_for_descriptor: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabels {
    listener: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    listener: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    resource: &'static str,
}

impl ConnectionMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("connections", "Connections that are open", self.open.clone());
        registry.register("connections_accepted", "Connections that were given a place", self.accepted.clone());
        registry.register(
            "connections_refused",
            "Connections closed at once: too many in all, from their address, or for the descriptors of the process",
            self.refused.clone(),
        );
        registry.register(
            "accept_errors",
            "Connections that could not be accepted: descriptors may have run out",
            self.accept_errors.clone(),
        );
        registry.register(
            "tls_handshake_errors",
            "Connections that did not get through the TLS handshake",
            self.handshake_errors.clone(),
        );
        registry.register(
            "backpressure_waits",
            "Requests that waited until their address, or all together, held less",
            self.waits.clone(),
        );
    }

    pub(crate) fn of_shares(&self) -> ShareMetrics {
        let waits = |resource| self.waits.get_or_create_owned(&WaitLabels { resource });
        ShareMetrics {
            request_waits: waits("request_bytes"),
            answer_waits: waits("answer_bytes"),
            call_waits: waits("calls"),
        }
    }

    pub(crate) fn of_listener(&self, listener: &'static str) -> ListenerMetrics {
        let labels = ListenerLabels { listener };
        let refused = |reason| self.refused.get_or_create_owned(&RefusalLabels { listener, reason });
        ListenerMetrics {
            open: self.open.get_or_create_owned(&labels),
            accepted: self.accepted.get_or_create_owned(&labels),
            accept_errors: self.accept_errors.get_or_create_owned(&labels),
            handshake_errors: self.handshake_errors.get_or_create_owned(&labels),
            refused_in_all: refused("in_all"),
            refused_for_address: refused("for_address"),
            refused_for_descriptor: refused("descriptors"),
        }
    }
}

impl ListenerMetrics {
    pub(super) fn count_refused(&self, why: NoPlace) {
        match why {
            NoPlace::InAll => self.refused_in_all.inc(),
            NoPlace::ForAddress => self.refused_for_address.inc(),
            NoPlace::ForDescriptor => self.refused_for_descriptor.inc(),
        };
    }
}
