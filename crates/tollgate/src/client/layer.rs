use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::request::Parts;
use http_body::Body;

use super::destination::QueueBounds;
use super::destinations::Destinations;
use super::service::PacedClient;
use crate::limiter::AsyncLimiter;

/// A tower layer for clients: it paces requests to each server, waits when a server asks for it, and retries.
///
/// All services that one layer makes, and all clones of them, share what is known of each server.
///
/// ```
/// use std::time::Duration;
/// use tollgate::client::ClientLayer;
///
/// let layer = ClientLayer::new().max_wait(Duration::from_secs(10)).retries(2);
/// # let _ = layer;
/// ```
#[derive(Clone)]
pub struct ClientLayer<C = EmptyBodies> {
    options: Arc<ClientOptions>,
    bodies: C,
}

/// Returns the body of another attempt, if there can be one.
///
/// Implemented by [`EmptyBodies`] and by the functions that [`ClientLayer::clone_body`] takes.
pub trait CloneBody<B> {
    /// Returns an equal body, or `None` if the request can be sent only once.
    fn clone_body(&self, body: &B) -> Option<B>;
}

/// Requests without a body can be sent again; others cannot.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyBodies;

impl<B: Body + Default> CloneBody<B> for EmptyBodies {
    fn clone_body(&self, body: &B) -> Option<B> {
        body.is_end_stream().then(B::default)
    }
}

/// A function that clones bodies.
#[derive(Clone, Copy, Debug)]
pub struct CloneBodyWith<F>(F);

impl<B, F: Fn(&B) -> Option<B>> CloneBody<B> for CloneBodyWith<F> {
    fn clone_body(&self, body: &B) -> Option<B> {
        (self.0)(body)
    }
}

type KeyOf = dyn Fn(&Parts) -> String + Send + Sync;
type CostOf = dyn Fn(&Parts) -> u64 + Send + Sync;
type MayRetry = dyn Fn(&Parts) -> bool + Send + Sync;

#[derive(Clone)]
pub(super) struct ClientOptions {
    pub(super) bounds: QueueBounds,
    pub(super) max_keys: usize,
    pub(super) retries: u32,
    pub(super) backoff: (Duration, Duration),
    pub(super) key: Option<Arc<KeyOf>>,
    pub(super) cost: Option<Arc<CostOf>>,
    pub(super) may_retry: Option<Arc<MayRetry>>,
    pub(super) limiter: Option<AsyncLimiter>,
    /// Made with the first service, when all options are set.
    destinations: Arc<OnceLock<Destinations>>,
}

impl Default for ClientLayer {
    fn default() -> ClientLayer {
        let second = Duration::from_secs(1);
        let bounds = QueueBounds { max_waiting: 1_000, max_wait: 30 * second, ceiling: 60 * second };
        let options = ClientOptions {
            bounds,
            max_keys: 10_000,
            retries: 3,
            backoff: (second / 10, 20 * second),
            key: None,
            cost: None,
            may_retry: None,
            limiter: None,
            destinations: Arc::default(),
        };
        ClientLayer { options: Arc::new(options), bodies: EmptyBodies }
    }
}

impl ClientLayer {
    /// Creates a layer that knows servers by the host and port of the request, and has no limit of its own.
    #[must_use]
    pub fn new() -> ClientLayer {
        ClientLayer::default()
    }
}

impl<C> ClientLayer<C> {
    /// Counts requests by what `key` returns, instead of by host and port: an API key, or a part of an API with a limit
    /// of its own. A refusal or a pause of one key does not affect others.
    ///
    /// ```
    /// use tollgate::client::ClientLayer;
    ///
    /// let layer = ClientLayer::new().key(|parts| match parts.uri.path().starts_with("/search") {
    ///     true => "search".to_owned(),
    ///     false => "everything else".to_owned(),
    /// });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn key(self, key: impl Fn(&Parts) -> String + Send + Sync + 'static) -> ClientLayer<C> {
        self.with(|options| options.key = Some(Arc::new(key)))
    }

    /// Also limits requests by a limiter of the client: in this process, or shared by all instances through Redis.
    ///
    /// Each attempt is a request to the limiter, which waits for its turn as [`AsyncLimiter::acquire`] does: in the
    /// queue of a leaky bucket, first in, first out. The policy sees the method, host, path and header fields of the
    /// request, and the key of this layer as the identity `destination`. A request that is dropped while it waits
    /// charges nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::client::ClientLayer;
    /// use tollgate::{Limiter, rule};
    ///
    /// let queue = rule("per-host").per("destination").limit("5/s").queue(100, Duration::from_secs(20));
    /// let limiter = Limiter::builder().rule(queue).build()?;
    /// let layer = ClientLayer::new().limiter(limiter);
    /// # let _ = layer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn limiter(self, limiter: impl Into<AsyncLimiter>) -> ClientLayer<C> {
        self.with(|options| options.limiter = Some(limiter.into()))
    }

    /// Sets the cost of each request for the limiter. It may be an estimate: [`ClientCharge`](super::ClientCharge), in
    /// the extensions of the response, settles it.
    ///
    /// ```
    /// use tollgate::client::ClientLayer;
    ///
    /// let layer = ClientLayer::new().cost(|parts| if parts.uri.path() == "/export" { 10 } else { 1 });
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> ClientLayer<C> {
        self.with(|options| options.cost = Some(Arc::new(cost)))
    }

    /// Sets how long a request may wait in all, over all attempts: 30 s by default. A request that would certainly wait
    /// longer fails at once.
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> ClientLayer<C> {
        self.with(|options| options.bounds.max_wait = max_wait)
    }

    /// Sets how many requests of one key may wait: 1,000 by default. Further ones fail at once.
    #[must_use]
    pub fn max_waiting(self, max_waiting: usize) -> ClientLayer<C> {
        self.with(|options| options.bounds.max_waiting = max_waiting)
    }

    /// Sets the longest pause that a server can ask for: 60 s by default. If it asks for more, all requests of the key
    /// fail at once for this time. Then one is sent, and its response counts.
    #[must_use]
    pub fn longest_pause(self, longest: Duration) -> ClientLayer<C> {
        self.with(|options| options.bounds.ceiling = longest)
    }

    /// Sets how many keys are remembered: 10,000 by default. Idle keys are forgotten first.
    #[must_use]
    pub fn max_keys(self, max_keys: usize) -> ClientLayer<C> {
        self.with(|options| options.max_keys = max_keys)
    }

    /// Sets how often a request is sent again: 3 times by default; 0 turns retries off.
    ///
    /// Retried are refusals (429, 503, and their gRPC statuses), 502, 504, and errors of the connection, for
    /// idempotent requests only, and in all for a tenth of the requests of a key.
    #[must_use]
    pub fn retries(self, retries: u32) -> ClientLayer<C> {
        self.with(|options| options.retries = retries)
    }

    /// Sets the wait before a retry: a random time of up to `base`, which doubles with each attempt, and at most
    /// `longest`. By default 100 ms and 20 s. `Retry-After` is added.
    #[must_use]
    pub fn backoff(self, base: Duration, longest: Duration) -> ClientLayer<C> {
        self.with(|options| options.backoff = (base, longest))
    }

    /// Chooses the requests that may be sent twice, instead of those with an idempotent method or an `Idempotency-Key`.
    ///
    /// ```
    /// use tollgate::client::ClientLayer;
    ///
    /// // A search with a body changes nothing.
    /// let layer = ClientLayer::new().retry_if(|parts| parts.uri.path() == "/search");
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn retry_if(self, may_retry: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> ClientLayer<C> {
        self.with(|options| options.may_retry = Some(Arc::new(may_retry)))
    }

    /// Clones the bodies of requests, so that requests with a body can be retried. By default only empty bodies are.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::Full;
    /// use tollgate::client::ClientLayer;
    ///
    /// let layer = ClientLayer::new().clone_body(|body: &Full<Bytes>| Some(body.clone()));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn clone_body<B, F: Fn(&B) -> Option<B>>(self, clone: F) -> ClientLayer<CloneBodyWith<F>> {
        ClientLayer { options: self.options, bodies: CloneBodyWith(clone) }
    }

    fn with(self, change: impl FnOnce(&mut ClientOptions)) -> ClientLayer<C> {
        let mut options = ClientOptions::clone(&self.options);
        change(&mut options);
        // Other bounds need other destinations.
        options.destinations = Arc::default();
        ClientLayer { options: Arc::new(options), bodies: self.bodies }
    }
}

impl ClientOptions {
    pub(super) fn destinations(&self) -> &Destinations {
        self.destinations.get_or_init(|| Destinations::new(self.bounds, self.max_keys))
    }
}

impl<Inner, C: Clone> tower_layer::Layer<Inner> for ClientLayer<C> {
    type Service = PacedClient<Inner, C>;

    fn layer(&self, inner: Inner) -> PacedClient<Inner, C> {
        PacedClient { inner, options: Arc::clone(&self.options), bodies: self.bodies.clone() }
    }
}

impl<C> fmt::Debug for ClientLayer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientLayer").field("bounds", &self.options.bounds).finish_non_exhaustive()
    }
}
