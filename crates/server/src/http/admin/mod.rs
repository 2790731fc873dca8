//! The admin API.

mod auth;
mod compare;
mod events;
mod explain;
mod keys;
mod live;
mod page;
mod policy;
mod regions;
mod reload;
mod top;

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRef, State};
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc, watch};
use tollgate::policy::promise::Promise;

use super::promise_body::PromiseBody;
use super::routes::HttpRouter;
use crate::access::AccessToken;
use crate::engine::Engine;
pub(crate) use live::LivePublisher;
pub use reload::ReloadRequest;

/// The state of the admin API.
#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) engine: Arc<Engine>,
    /// The required token, if any.
    pub(crate) token: Option<AccessToken>,
    /// Receives reload requests, if reloading is possible.
    pub(crate) reloads: Option<mpsc::Sender<ReloadRequest>>,
    /// Whether the service is stopping, which ends event streams.
    pub(crate) stopped: watch::Receiver<bool>,
    /// Slots of event subscribers.
    pub(crate) subscribers: Arc<Semaphore>,
    /// The state of the service, computed once for all subscribers.
    pub(crate) live: LivePublisher,
    /// Slots of subscribers of the live stream.
    pub(crate) live_subscribers: Arc<Semaphore>,
    /// Slots of comparisons.
    pub(crate) comparisons: Arc<Semaphore>,
}

impl AdminState {
    pub(crate) fn new(engine: Arc<Engine>, stopped: watch::Receiver<bool>) -> AdminState {
        AdminState {
            live: LivePublisher::new(Arc::clone(&engine)),
            live_subscribers: Arc::new(Semaphore::new(live::MAX_LIVE_SUBSCRIBERS)),
            comparisons: Arc::new(Semaphore::new(compare::MAX_COMPARISONS)),
            engine,
            token: None,
            reloads: None,
            stopped,
            subscribers: Arc::new(Semaphore::new(events::MAX_SUBSCRIBERS)),
        }
    }
}

impl FromRef<AdminState> for Arc<Engine> {
    fn from_ref(admin: &AdminState) -> Arc<Engine> {
        Arc::clone(&admin.engine)
    }
}

/// Returns the router of the admin listener; every route but those of the page's own files requires authentication.
pub(crate) fn admin_routes(admin: AdminState) -> HttpRouter {
    let authenticate = from_fn_with_state(admin.clone(), auth::authenticate);
    let engine = Arc::clone(&admin.engine);
    let router = Router::new()
        .route("/metrics", get(super::metrics))
        .route("/api/rules", get(rules))
        .route("/api/status", get(live::status))
        .route("/api/live", get(live::live))
        .route("/api/policy", get(policy::policy))
        .route("/api/explain", post(explain::explain))
        .route("/api/compare", post(compare::compare))
        .route("/api/top", get(top::top))
        .route("/api/events", get(events::events))
        .route("/api/keys/{*key}", get(keys::inspect).put(keys::set).delete(keys::reset))
        .route("/api/overrides", get(keys::overrides))
        .route("/api/overrides/{*key}", delete(keys::end_override))
        .route("/api/regions", get(regions::regions))
        .route("/api/reload", post(reload::reload))
        .fallback(super::no_such_path)
        .method_not_allowed_fallback(super::wrong_method)
        .layer(authenticate)
        // After the layer: the files show nothing without the API, and a browser sends no token for them.
        .merge(page::routes())
        .with_state(admin);
    HttpRouter::new(router, None, &engine)
}

/// An active rule, with its guarantees.
#[derive(Serialize)]
struct RuleBody {
    #[serde(flatten)]
    figures: PromiseBody,
    /// The guarantees as `tollgate validate` prints them.
    text: String,
}

/// `GET /api/rules`: the active rules, with their guarantees.
async fn rules(State(engine): State<Arc<Engine>>) -> Json<HashMap<&'static str, Vec<RuleBody>>> {
    let body = |promise: &Promise| RuleBody { figures: PromiseBody::from(promise), text: promise.to_string() };
    let rules = engine.with_promises(|promises| promises.iter().map(body).collect());
    Json(HashMap::from([("rules", rules)]))
}
