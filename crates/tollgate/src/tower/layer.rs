use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, Response};
use tollgate_store::{MemoryStore, Store};

use super::peer::known_peer_address;
use super::service::Tollgate;
use crate::limiter::Limiter;
use crate::verdict::Verdict;

/// Puts a limiter in front of a service.
///
/// All services that one layer makes, and all clones of them, share the
/// limiter's counters: it does not matter whether a server makes one for each
/// connection.
pub struct TollgateLayer<S: Store = MemoryStore> {
    options: Arc<Options<S>>,
}

pub(super) struct Options<S: Store> {
    pub(super) limiter: Limiter<S>,
    pub(super) peer_address: Arc<FindPeer>,
    pub(super) on_refused: Option<Arc<Respond>>,
}

type FindPeer = dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync;
type Respond = dyn Fn(&Verdict) -> Response<Bytes> + Send + Sync;

impl<S: Store> Limiter<S> {
    /// A layer that asks this limiter.
    #[must_use]
    pub fn layer(&self) -> TollgateLayer<S> {
        TollgateLayer::new(self.clone())
    }
}

impl<S: Store> TollgateLayer<S> {
    /// A layer that asks `limiter`.
    #[must_use]
    pub fn new(limiter: Limiter<S>) -> TollgateLayer<S> {
        let options = Options { limiter, peer_address: Arc::new(known_peer_address), on_refused: None };
        TollgateLayer { options: Arc::new(options) }
    }

    /// Where to find the peer's address among a request's extensions.
    #[must_use]
    pub fn peer_address(
        self,
        find: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> TollgateLayer<S> {
        let options = Options { peer_address: Arc::new(find), ..Options::clone(&self.options) };
        TollgateLayer { options: Arc::new(options) }
    }

    /// Builds the response to a refused request oneself. The layer adds its fields to it.
    #[must_use]
    pub fn on_refused(self, respond: impl Fn(&Verdict) -> Response<Bytes> + Send + Sync + 'static) -> TollgateLayer<S> {
        let options = Options { on_refused: Some(Arc::new(respond)), ..Options::clone(&self.options) };
        TollgateLayer { options: Arc::new(options) }
    }
}

impl<S: Store> Clone for Options<S> {
    fn clone(&self) -> Options<S> {
        Options {
            limiter: self.limiter.clone(),
            peer_address: Arc::clone(&self.peer_address),
            on_refused: self.on_refused.clone(),
        }
    }
}

impl<S: Store, Inner> tower_layer::Layer<Inner> for TollgateLayer<S> {
    type Service = Tollgate<Inner, S>;

    fn layer(&self, inner: Inner) -> Tollgate<Inner, S> {
        Tollgate { inner, options: Arc::clone(&self.options) }
    }
}

impl<S: Store> Clone for TollgateLayer<S> {
    fn clone(&self) -> TollgateLayer<S> {
        TollgateLayer { options: Arc::clone(&self.options) }
    }
}

impl<S: Store> fmt::Debug for TollgateLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TollgateLayer").field("limiter", &self.options.limiter).finish_non_exhaustive()
    }
}
