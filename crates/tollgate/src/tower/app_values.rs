//! What the application adds to a request: identities, a cost, another limiter.

use std::sync::Arc;

use http::request::Parts;
use tollgate_policy::{Request, parse_address};

use crate::limiter::AsyncLimiter;

type Identify = dyn Fn(&Parts) -> Option<String> + Send + Sync;
type CostOf = dyn Fn(&Parts) -> u64 + Send + Sync;
type Select = dyn Fn(&Parts) -> Option<AsyncLimiter> + Send + Sync;

/// The functions of the application that read a request for the layer.
#[derive(Clone, Default)]
pub(super) struct AppFunctions {
    pub(super) identify: Vec<(Arc<str>, Arc<Identify>)>,
    pub(super) cost: Option<Arc<CostOf>>,
    pub(super) select: Option<Arc<Select>>,
}

impl AppFunctions {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.identify.is_empty() && self.cost.is_none() && self.select.is_none()
    }

    /// Calls the functions for a request.
    pub(super) fn read<B>(&self, request: http::Request<B>) -> (http::Request<B>, AppValues) {
        let (parts, body) = request.into_parts();
        let value = |(name, identify): &(Arc<str>, Arc<Identify>)| Some((Arc::clone(name), identify(&parts)?));
        let values = AppValues {
            identities: self.identify.iter().filter_map(value).collect(),
            cost: self.cost.as_ref().map(|cost| cost(&parts)),
            limiter: self.select.as_ref().and_then(|select| select(&parts)),
        };
        (http::Request::from_parts(parts, body), values)
    }
}

/// What the functions of the application returned for one request.
#[derive(Default)]
pub(super) struct AppValues {
    identities: Vec<(Arc<str>, String)>,
    cost: Option<u64>,
    pub(super) limiter: Option<AsyncLimiter>,
}

impl AppValues {
    /// The identities as the policy takes them. Without any, nothing is allocated.
    #[inline]
    pub(super) fn identities(&self) -> Vec<(&str, &str)> {
        self.identities.iter().map(|(name, value)| (&**name, value.as_str())).collect()
    }

    /// Whether the application gave the client's address, so that the peer's is not needed.
    pub(super) fn has_client_ip(&self) -> bool {
        let is_address = |(name, value): &(Arc<str>, String)| &**name == CLIENT_IP && parse_address(value).is_some();
        self.identities.iter().any(is_address)
    }

    /// Whether the cost of the request may be settled: the application has estimated it.
    pub(super) fn has_cost(&self) -> bool {
        self.cost.is_some()
    }

    /// Adds the values to a request.
    #[inline]
    pub(super) fn add_to<'a>(&self, request: Request<'a>, identities: &'a [(&'a str, &'a str)]) -> Request<'a> {
        Request { identities, cost: self.cost.unwrap_or(request.cost), ..request }
    }
}

const CLIENT_IP: &str = "client_ip";
