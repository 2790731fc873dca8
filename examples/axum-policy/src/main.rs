//! An axum service with a policy file.
//!
//! ```text
//! cargo run -p axum-policy
//! ```
//!
//! A user of the free tier has five requests a minute, a user of the tier `pro` fifty:
//!
//! ```text
//! for i in 1 2 3 4 5 6; do curl -i -H 'X-User-ID: ann' http://127.0.0.1:3000/; done
//! curl -i -H 'X-User-ID: ben' -H 'X-Tier: pro' http://127.0.0.1:3000/
//! ```
//!
//! Repeated logins get a warning (`X-RateLimit-Warning`), then are rejected,
//! then blocked for a quarter of an hour:
//!
//! ```text
//! for i in 1 2 3 4 5 6 7; do curl -i -X POST http://127.0.0.1:3000/auth/login; done
//! ```
//!
//! Of three concurrent reports, one is refused:
//!
//! ```text
//! for i in 1 2 3; do curl -i -H 'X-User-ID: eve' http://127.0.0.1:3000/reports/2026 & done; wait
//! ```
//!
//! Change `policy.yaml`, restart, and try again.
#![allow(clippy::print_stdout, reason = "prints its address")]

use std::error::Error;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = axum_policy::app()?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("policy: {}", axum_policy::POLICY);
    println!("listening on http://{}", listener.local_addr()?);
    axum_policy::serve(listener, app).await?;
    Ok(())
}
