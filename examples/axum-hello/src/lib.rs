//! A limit for each address, in five lines. See `main.rs` for how to try it.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::{Limiter, LimiterError, rule};

/// A service that says hello, five times a minute to each address.
pub fn app() -> Result<Router, LimiterError> {
    let limiter = Limiter::builder().rule(rule("per-ip").per("client_ip").limit("5/min")).build()?;
    let service = Router::new().route("/", get(|| async { "Hello!\n" }));
    Ok(service.layer(limiter.layer()))
}

/// Serves it. With connect info the layer sees where requests come from.
pub async fn serve(listener: TcpListener, app: Router) -> io::Result<()> {
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
}
