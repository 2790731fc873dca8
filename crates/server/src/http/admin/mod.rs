//! What operators see and do.

mod events;
mod gate;
mod key_body;
mod key_name;
mod keys;
mod reload;
mod top;

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRef, State};
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use tokio::sync::{Semaphore, mpsc, watch};

use super::promise_body::PromiseBody;
use super::routes::Routes;
use crate::access::AccessToken;
use crate::engine::Engine;
pub use reload::ReloadRequest;

/// What the admin interface works with.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) engine: Arc<Engine>,
    /// What must be brought, if anything.
    pub(crate) token: Option<AccessToken>,
    /// Where requests go to read the policy again, if somebody takes them.
    pub(crate) reloads: Option<mpsc::Sender<ReloadRequest>>,
    /// Whether the service is about to end, which ends what would go on for ever.
    pub(crate) stopped: watch::Receiver<bool>,
    /// Places for those who listen to events.
    pub(crate) listeners: Arc<Semaphore>,
}

impl Admin {
    pub(crate) fn new(engine: Arc<Engine>, stopped: watch::Receiver<bool>) -> Admin {
        Admin { engine, token: None, reloads: None, stopped, listeners: Arc::new(Semaphore::new(events::LISTENERS)) }
    }
}

impl FromRef<Admin> for Arc<Engine> {
    fn from_ref(admin: &Admin) -> Arc<Engine> {
        Arc::clone(&admin.engine)
    }
}

/// Behind the gate, everything.
pub(crate) fn admin_routes(admin: Admin) -> Routes {
    let gate = from_fn_with_state(admin.clone(), gate::gate);
    let engine = Arc::clone(&admin.engine);
    let router = Router::new()
        .route("/metrics", get(super::metrics))
        .route("/api/rules", get(rules))
        .route("/api/top", get(top::top))
        .route("/api/events", get(events::events))
        .route("/api/keys/{*key}", get(keys::inspect).put(keys::set).delete(keys::reset))
        .route("/api/overrides", get(keys::overrides))
        .route("/api/overrides/{*key}", delete(keys::end_override))
        .route("/api/reload", post(reload::reload))
        .fallback(super::no_such_path)
        .method_not_allowed_fallback(super::wrong_method)
        .layer(gate)
        .with_state(admin);
    Routes::new(router, None, &engine)
}

/// `GET /api/rules`: the rules in force, with what each promises.
async fn rules(State(engine): State<Arc<Engine>>) -> Json<HashMap<&'static str, Vec<PromiseBody>>> {
    let rules = engine.with_promises(|promises| promises.iter().map(PromiseBody::from).collect());
    Json(HashMap::from([("rules", rules)]))
}
