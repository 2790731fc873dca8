//! A service that obeys a policy file. See `main.rs` for how to try it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tollgate::{Limiter, LimiterError};

/// The policy, beside this crate's `Cargo.toml`.
pub const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/policy.yaml");

/// The service, behind what the policy says.
pub fn app() -> Result<Router, LimiterError> {
    let limiter = Limiter::from_file(POLICY)?;
    Ok(service().layer(limiter.layer()))
}

/// The service knows nothing of limits.
fn service() -> Router {
    Router::new()
        .route("/", get(|| async { "Welcome.\n" }))
        .route("/auth/login", post(|| async { "You are who you say you are.\n" }))
        .route("/reports/{name}", get(report))
}

/// Takes its time, as reports do.
async fn report(Path(name): Path<String>) -> String {
    tokio::time::sleep(Duration::from_millis(700)).await;
    format!("The report on {name}.\n")
}

/// Serves it. With connect info the layer sees where requests come from.
pub async fn serve(listener: TcpListener, app: Router) -> io::Result<()> {
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
}
