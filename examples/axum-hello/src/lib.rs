//! A limit for each client address, in five lines. See `main.rs` for how to try it.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::{Limiter, LimiterError, rule};

/// Creates a service that greets each client address up to five times a minute.
pub fn app() -> Result<Router, LimiterError> {
    let limiter = Limiter::builder().rule(rule("per-ip").per("client_ip").limit("5/min")).build()?;
    let service = Router::new().route("/", get(|| async { "Hello!\n" }));
    Ok(service.layer(limiter.layer()))
}

/// Serves the app. The layer reads the client's address from the connect info.
pub async fn serve(listener: TcpListener, app: Router) -> io::Result<()> {
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
}
