use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, Response};
use http_body::Body;

use super::app_values::AppFunctions;
use super::request::known_peer_address;
use super::response::{BoxError, BoxedBody, MapError};
use super::service::Tollgate;
use crate::limiter::AsyncLimiter;
use crate::verdict::Verdict;

/// A tower layer that decides every request by a limiter before the service sees it.
///
/// All services that one layer makes, and all clones of them, share the limiter's counters. A server may clone the
/// service for each connection.
///
/// ```
/// # use axum::{Router, routing::get};
/// use tollgate::{Limiter, rule};
///
/// /// Inserted into the request's extensions by an authentication middleware.
/// #[derive(Clone)]
/// struct User { id: u64 }
///
/// let limiter = Limiter::builder().rule(rule("per-user").per("user").limit("100/min")).build()?;
/// let layer = limiter.layer().identify_by("user", |user: &User| user.id.to_string());
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(layer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TollgateLayer {
    options: Arc<Options>,
}

#[derive(Clone)]
pub(super) struct Options {
    pub(super) limiter: AsyncLimiter,
    pub(super) peer_address: Arc<FindPeer>,
    pub(super) functions: AppFunctions,
    pub(super) on_refused: Option<Arc<Respond>>,
}

type FindPeer = dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync;
type Respond = dyn Fn(&Verdict, Response<String>) -> Response<BoxedBody> + Send + Sync;

impl AsyncLimiter {
    /// Returns a layer that decides requests by this limiter.
    #[must_use]
    pub fn layer(&self) -> TollgateLayer {
        TollgateLayer::new(self.clone())
    }
}

impl TollgateLayer {
    /// Creates a layer that decides requests by `limiter`.
    #[must_use]
    pub fn new(limiter: AsyncLimiter) -> TollgateLayer {
        let peer_address = Arc::new(known_peer_address);
        let options = Options { limiter, peer_address, functions: AppFunctions::default(), on_refused: None };
        TollgateLayer { options: Arc::new(options) }
    }

    /// Finds the peer's address in a request's extensions by `find`, instead of where axum and tonic store it.
    #[must_use]
    pub fn peer_address(self, find: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static) -> TollgateLayer {
        self.with(|options| options.peer_address = Arc::new(find))
    }

    /// Sets an identity from the application: the user that an authentication middleware found, a tenant, a tier.
    ///
    /// The value replaces what the policy would read from the request. Where `identify` returns `None` or an empty
    /// text, the policy reads the identity from its declared source; an identity that only the application sets is
    /// declared as `given` in a file and needs no declaration in a program. Call it again for further identities.
    ///
    /// The tier is set in the same way, under the name `tier`; in a program declare it with
    /// [`tier_from(IdentitySource::Given, ..)`](crate::LimiterBuilder::tier_from).
    ///
    /// The layer runs after the middleware that inserts the value, so it must be *inside* of it: in axum, call
    /// `.layer(limiter_layer)` before `.layer(auth_middleware)`.
    ///
    /// ```
    /// # use tollgate::{Limiter, rule};
    /// # let limiter = Limiter::builder().rule(rule("per-tenant").per("tenant").limit("100/min")).build()?;
    /// let layer = limiter.layer().identify("tenant", |parts| {
    ///     let host = parts.headers.get("host")?.to_str().ok()?;
    ///     Some(host.split('.').next()?.to_owned())
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the limiter's policy has no identity of this name, or one that callers cannot set (`method`, `path` ..):
    /// the value would be ignored, and the rule that was meant would limit nothing.
    #[must_use]
    pub fn identify(
        self,
        name: &str,
        identify: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> TollgateLayer {
        assert!(
            self.options.limiter.policy().accepts_identity(name),
            "the policy has no identity `{name}` that an application can set: count by it in a rule's key, or declare \
             it under `identity:` as `given`",
        );
        self.with(|options| options.functions.identify.push((name.into(), Arc::new(identify))))
    }

    /// Sets an identity from a value in the request's extensions, as [`identify`](TollgateLayer::identify) does.
    ///
    /// A request without such a value has no identity from the application.
    ///
    /// # Panics
    /// As [`identify`](TollgateLayer::identify).
    #[must_use]
    pub fn identify_by<T: Send + Sync + 'static>(
        self,
        name: &str,
        value: impl Fn(&T) -> String + Send + Sync + 'static,
    ) -> TollgateLayer {
        self.identify(name, move |parts| parts.extensions.get::<T>().map(&value))
    }

    /// Sets the cost of each request. Rules with a `cost` of their own charge that instead; 0 charges nothing.
    ///
    /// The cost may be an estimate: a handler that learns the true cost sets it in
    /// [`TrueCost`](super::TrueCost), and the layer settles the charge when the response has ended.
    ///
    /// ```
    /// # use tollgate::{Limiter, rule};
    /// # let limiter = Limiter::builder().rule(rule("everything").limit("100/min")).build()?;
    /// let layer = limiter.layer().cost(|parts| if parts.uri.path().starts_with("/export") { 10 } else { 1 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> TollgateLayer {
        self.with(|options| options.functions.cost = Some(Arc::new(cost)))
    }

    /// Chooses another limiter for some requests. Where `select` returns `None`, the layer's own decides.
    ///
    /// To add a policy for a route instead of replacing it, put a second layer around that route: both must let a
    /// request pass, and the response carries the fields of both.
    ///
    /// Choose by what the router matched (`axum::extract::MatchedPath` in the extensions), not by the path as it was
    /// sent: a client can encode the same path in several ways.
    #[must_use]
    pub fn select(self, select: impl Fn(&Parts) -> Option<AsyncLimiter> + Send + Sync + 'static) -> TollgateLayer {
        self.with(|options| options.functions.select = Some(Arc::new(select)))
    }

    /// Builds the response to refused requests. `respond` gets the response that the layer would send, with the
    /// problem as its body, and returns it changed, or another: any `http` or axum response.
    ///
    /// The layer then adds the RateLimit fields and `Retry-After`.
    ///
    /// ```
    /// # use tollgate::{Limiter, rule};
    /// # let limiter = Limiter::builder().rule(rule("everything").limit("100/min")).build()?;
    /// let layer = limiter.layer().on_refused(|_, mut response| {
    ///     response.headers_mut().insert("x-support", "https://example.com/limits".parse().unwrap());
    ///     response
    /// });
    /// # use axum::response::IntoResponse;
    /// let page = limiter.layer().on_refused(|verdict, response| {
    ///     let rule = verdict.rule().unwrap_or("a list").to_owned();
    ///     (response.status(), axum::Json(rule)).into_response()
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_refused<B>(
        self,
        respond: impl Fn(&Verdict, Response<String>) -> Response<B> + Send + Sync + 'static,
    ) -> TollgateLayer
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let respond = move |verdict: &Verdict, response: Response<String>| {
            respond(verdict, response).map(|body| Box::pin(MapError { body }) as BoxedBody)
        };
        self.with(|options| options.on_refused = Some(Arc::new(respond)))
    }

    fn with(self, change: impl FnOnce(&mut Options)) -> TollgateLayer {
        let mut options = Options::clone(&self.options);
        change(&mut options);
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
