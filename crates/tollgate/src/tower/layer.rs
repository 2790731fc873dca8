use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, Response};

use super::request::known_peer_address;
use super::service::Tollgate;
use crate::limiter::AsyncLimiter;
use crate::verdict::Verdict;

/// Puts a limiter in front of a service.
///
/// All services that one layer makes, and all clones of them, share the
/// limiter's counters: it does not matter whether a server makes one for each
/// connection.
#[derive(Clone)]
pub struct TollgateLayer {
    options: Arc<Options>,
}

#[derive(Clone)]
pub(super) struct Options {
    pub(super) limiter: AsyncLimiter,
    pub(super) peer_address: Arc<FindPeer>,
    pub(super) on_refused: Option<Arc<Respond>>,
}

type FindPeer = dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync;
type Respond = dyn Fn(&Verdict) -> Response<Bytes> + Send + Sync;

impl AsyncLimiter {
    /// A layer that asks this limiter.
    #[must_use]
    pub fn layer(&self) -> TollgateLayer {
        TollgateLayer::new(self.clone())
    }
}

impl TollgateLayer {
    /// A layer that asks `limiter`.
    #[must_use]
    pub fn new(limiter: AsyncLimiter) -> TollgateLayer {
        let options = Options { limiter, peer_address: Arc::new(known_peer_address), on_refused: None };
        TollgateLayer { options: Arc::new(options) }
    }

    /// Where to find the peer's address among a request's extensions.
    #[must_use]
    pub fn peer_address(self, find: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static) -> TollgateLayer {
        let options = Options { peer_address: Arc::new(find), ..Options::clone(&self.options) };
        TollgateLayer { options: Arc::new(options) }
    }

    /// Builds the response to a refused request oneself. The layer adds its fields to it.
    #[must_use]
    pub fn on_refused(self, respond: impl Fn(&Verdict) -> Response<Bytes> + Send + Sync + 'static) -> TollgateLayer {
        let options = Options { on_refused: Some(Arc::new(respond)), ..Options::clone(&self.options) };
        TollgateLayer { options: Arc::new(options) }
    }
}

impl<Inner> tower_layer::Layer<Inner> for TollgateLayer {
    type Service = Tollgate<Inner>;

    fn layer(&self, inner: Inner) -> Tollgate<Inner> {
        Tollgate { inner, options: Arc::clone(&self.options) }
    }
}

impl fmt::Debug for TollgateLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TollgateLayer").field("limiter", &self.options.limiter).finish_non_exhaustive()
    }
}
