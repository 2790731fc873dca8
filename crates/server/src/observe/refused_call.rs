use std::net::IpAddr;

use serde::Serialize;

use super::timestamp::Timestamp;
use crate::metrics::counter::CounterMetric;
use crate::metrics::exposition::{Exposition, MetricKind};
use crate::server::Listener;

/// A call that a listener refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedCall {
    /// When.
    pub time: Timestamp,
    /// The listener: admin, http, grpc or resp.
    pub listener: &'static str,
    /// The reason.
    pub why: CallRefusal,
    /// The method, if it is a standard one. The path, which may identify a client, and the token are not logged.
    pub method: &'static str,
    /// The address of the caller.
    pub from: IpAddr,
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallRefusal {
    /// The call had no token.
    NoToken,
    /// The token is wrong.
    WrongToken,
    /// A web page of another site sent the request.
    AnotherSite,
    /// The host is a name that its owner could point at this machine.
    CalledByName,
}

impl CallRefusal {
    pub(super) const ALL: [CallRefusal; 4] =
        [CallRefusal::NoToken, CallRefusal::WrongToken, CallRefusal::AnotherSite, CallRefusal::CalledByName];

    /// Returns the name used in the log and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CallRefusal::NoToken => "no_token",
            CallRefusal::WrongToken => "wrong_token",
            CallRefusal::AnotherSite => "another_site",
            CallRefusal::CalledByName => "called_by_name",
        }
    }
}

/// Counters of refused calls, by listener and reason.
#[derive(Debug)]
pub(super) struct RefusedCalls(Vec<(&'static str, CallRefusal, CounterMetric)>);

impl RefusedCalls {
    /// Creates counters that are exported as 0: an alert cannot detect the increase of a series that begins with its
    /// first count.
    pub(super) fn new() -> RefusedCalls {
        let listeners = [Listener::Http, Listener::Grpc, Listener::Resp, Listener::Admin];
        let of_listener = |listener: Listener| {
            let possible = CallRefusal::ALL.into_iter().filter(move |&why| can_happen(listener, why));
            possible.map(move |why| (listener.name(), why, CounterMetric::default()))
        };
        RefusedCalls(listeners.into_iter().flat_map(of_listener).collect())
    }

    pub(super) fn count(&self, listener: &'static str, why: CallRefusal) {
        if let Some((.., refused)) = self.0.iter().find(|(of, known, _)| (*of, *known) == (listener, why)) {
            refused.inc();
        }
    }

    pub(super) fn write(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_refused_calls_total";
        exposition.describe(NAME, MetricKind::Counter, "Calls that a listener refused, by listener and reason.");
        for (listener, why, refused) in &self.0 {
            exposition.sample(NAME, &[("listener", listener), ("why", why.name())], refused.get());
        }
    }
}

/// Browser checks apply to HTTP only.
fn can_happen(listener: Listener, why: CallRefusal) -> bool {
    let is_http = matches!(listener, Listener::Http | Listener::Admin);
    is_http || matches!(why, CallRefusal::NoToken | CallRefusal::WrongToken)
}
