use std::net::IpAddr;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde::Serialize;

use super::timestamp::Timestamp;
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

/// How many were refused, and why.
#[derive(Clone, Debug)]
pub(super) struct RefusedCalls(pub(super) Family<WhyLabel, Counter>);

/// A label of metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WhyLabel {
    listener: &'static str,
    why: &'static str,
}

impl RefusedCalls {
    /// None so far, which is shown too: a series that begins with its first count cannot be alerted on.
    pub(super) fn new() -> RefusedCalls {
        let family = Family::<WhyLabel, Counter>::default();
        for listener in [Listener::Http, Listener::Grpc, Listener::Resp, Listener::Admin] {
            for why in WhyRefused::ALL.into_iter().filter(|&why| can_happen(listener, why)) {
                drop(family.get_or_create(&WhyLabel { listener: listener.name(), why: why.name() }));
            }
        }
        RefusedCalls(family)
    }

    pub(super) fn count(&self, listener: &'static str, why: WhyRefused) {
        self.0.get_or_create(&WhyLabel { listener, why: why.name() }).inc();
    }
}

/// Browsers ask over HTTP only.
fn can_happen(listener: Listener, why: WhyRefused) -> bool {
    let is_http = matches!(listener, Listener::Http | Listener::Admin);
    is_http || matches!(why, WhyRefused::NoToken | WhyRefused::WrongToken)
}
