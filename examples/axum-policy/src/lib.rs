//! An axum service with a policy file. See `main.rs` for how to try it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tollgate::{Limiter, LimiterError};

/// The path of the policy, in the directory of this crate's `Cargo.toml`.
pub const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/policy.yaml");

/// Creates the service, with the limits of the policy.
pub fn app() -> Result<Router, LimiterError> {
    let limiter = Limiter::from_file(POLICY)?;
    Ok(service().layer(limiter.layer()))
}

/// Creates the service without limits.
fn service() -> Router {
    Router::new()
        .route("/", get(|| async { "Welcome.\n" }))
        .route("/auth/login", post(|| async { "You are logged in.\n" }))
        .route("/reports/{name}", get(report))
}

/// Returns a report after some time, like a slow query.
async fn report(Path(name): Path<String>) -> String {
    tokio::time::sleep(Duration::from_millis(700)).await;
    format!("The report on {name}.\n")
}

/// Serves the app. The layer reads the client's address from the connect info.
pub async fn serve(listener: TcpListener, app: Router) -> io::Result<()> {
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
}
