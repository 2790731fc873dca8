//! A layer for HTTP and gRPC services: axum, hyper, tonic and everything else that tower serves.
//!
//! The layer decides every request before the service sees it. An allowed response carries the RateLimit fields; a
//! refused request gets a 429 (or 403, 401, 503) with problem+json, or a gRPC status. If the policy needs the client's
//! address and the server does not provide it, every request gets a 500 that says so.
//!
//! The policy reads the method, host, path and header fields from the request, and the peer's address from its
//! extensions, where axum (feature `axum`) and tonic (feature `tonic`) store it. Other servers insert a
//! [`PeerAddress`], or the layer gets a function that finds it: [`TollgateLayer::peer_address`].
//!
//! Concurrency permits are held until the body of the response has ended or is dropped. While the service or the body is
//! polled, the layer renews their leases; a client that does not read the body for longer than the lease loses its permit.
//! The delays of queueing rules use tokio's timer, also with a manual clock.
//!
//! Tests call a router in process with [`PeerAddress`] or axum's `ConnectInfo` in the request's extensions
//! (`MockConnectInfo` is not used):
//!
//! ```
//! # use axum::{Router, body::Body, routing::get};
//! # use tollgate::{Limiter, rule, tower::PeerAddress};
//! # use tower::ServiceExt;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::builder().rule(rule("per-ip").per("client_ip").limit("1/min")).build()?;
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limiter.layer());
//! for status in [200, 429] {
//!     let mut request = http::Request::new(Body::empty());
//!     request.extensions_mut().insert(PeerAddress("203.0.113.9".parse()?));
//!     assert_eq!(app.clone().oneshot(request).await?.status(), status);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What only the application knows comes from functions of the request's parts: identities such as the user that an
//! authentication middleware found ([`identify`](TollgateLayer::identify)), the cost
//! ([`cost`](TollgateLayer::cost)), and another limiter for some routes ([`select`](TollgateLayer::select)).

mod app_values;
mod guard;
mod layer;
mod refusal;
mod request;
mod response;
mod service;

pub use guard::TrueCost;
pub use layer::TollgateLayer;
pub use request::PeerAddress;
#[cfg(feature = "client")]
pub(crate) use request::{HeaderLines, policy_request};
pub use response::{BoxError, ResponseFuture, TollgateBody};
pub use service::Tollgate;
