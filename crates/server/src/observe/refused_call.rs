use std::net::IpAddr;

use serde::Serialize;

use super::timestamp::Timestamp;
use crate::metrics::counter::Counter;
use crate::metrics::exposition::{Exposition, Kind};
use crate::server::Listener;

/// A call that a listener did not admit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedCall {
    /// When.
    pub time: Timestamp,
    /// The listener: admin, http, grpc or resp.
    pub listener: &'static str,
    /// Why.
    pub why: WhyRefused,
    /// The method, if it is one that is known. Neither the path is told, which may name a client, nor what was brought.
    pub method: &'static str,
    /// Where the call came from.
    pub from: IpAddr,
}

/// Why a listener does not admit a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyRefused {
    /// No token was brought.
    NoToken,
    /// What was brought is not the token.
    WrongToken,
    /// A page of another site asked.
    AnotherSite,
    /// It was called by a name that others could give to this machine.
    CalledByName,
}

impl WhyRefused {
    pub(super) const ALL: [WhyRefused; 4] =
        [WhyRefused::NoToken, WhyRefused::WrongToken, WhyRefused::AnotherSite, WhyRefused::CalledByName];

    /// Its name in the log and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WhyRefused::NoToken => "no_token",
            WhyRefused::WrongToken => "wrong_token",
            WhyRefused::AnotherSite => "another_site",
            WhyRefused::CalledByName => "called_by_name",
        }
    }
}

/// How many were refused, by listener and why.
#[derive(Debug)]
pub(super) struct RefusedCalls(Vec<(&'static str, WhyRefused, Counter)>);

impl RefusedCalls {
    /// None so far, which is shown too: a series that begins with its first count cannot be alerted on.
    pub(super) fn new() -> RefusedCalls {
        let listeners = [Listener::Http, Listener::Grpc, Listener::Resp, Listener::Admin];
        let of_listener = |listener: Listener| {
            let possible = WhyRefused::ALL.into_iter().filter(move |&why| can_happen(listener, why));
            possible.map(move |why| (listener.name(), why, Counter::default()))
        };
        RefusedCalls(listeners.into_iter().flat_map(of_listener).collect())
    }

    pub(super) fn count(&self, listener: &'static str, why: WhyRefused) {
        if let Some((.., refused)) = self.0.iter().find(|(of, known, _)| (*of, *known) == (listener, why)) {
            refused.inc();
        }
    }

    pub(super) fn write(&self, exposition: &mut Exposition<'_>) {
        const NAME: &str = "tollgate_refused_calls_total";
        exposition.describe(NAME, Kind::Counter, "Calls that a listener did not admit, by listener and why.");
        for (listener, why, refused) in &self.0 {
            exposition.sample(NAME, &[("listener", listener), ("why", why.name())], refused.get());
        }
    }
}

/// Browsers ask over HTTP only.
fn can_happen(listener: Listener, why: WhyRefused) -> bool {
    let is_http = matches!(listener, Listener::Http | Listener::Admin);
    is_http || matches!(why, WhyRefused::NoToken | WhyRefused::WrongToken)
}
