//! What operators see and do.

mod gate;
mod reload;
mod rules;
mod token;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tokio::sync::mpsc;

use crate::engine::Engine;
pub use reload::ReloadRequest;
pub use token::{AdminToken, TokenError};

/// What the admin interface works with.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) engine: Arc<Engine>,
    /// What must be brought, if anything.
    pub(crate) token: Option<Arc<AdminToken>>,
    /// Where requests go to read the policy again, if somebody takes them.
    pub(crate) reloads: Option<mpsc::Sender<ReloadRequest>>,
}

impl FromRef<Admin> for Arc<Engine> {
    fn from_ref(admin: &Admin) -> Arc<Engine> {
        Arc::clone(&admin.engine)
    }
}

/// Behind the gate, everything.
pub(crate) fn admin_router(admin: Admin) -> Router {
    let gate = from_fn_with_state(admin.token.clone(), gate::gate);
    Router::new()
        .route("/metrics", get(super::metrics))
        .route("/api/rules", get(rules::rules))
        .route("/api/reload", post(reload::reload))
        .fallback(super::no_such_path)
        .method_not_allowed_fallback(super::wrong_method)
        .layer(gate)
        .with_state(admin)
}
