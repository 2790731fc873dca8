//! A layer for clients of other services: reqwest, hyper, tonic and everything else that is a tower service.
//!
//! ```
//! # use http::{Request, Response};
//! # use tower::{Layer, Service, ServiceExt, service_fn};
//! use tollgate::client::ClientLayer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! # let http_client = service_fn(async |_: Request<String>| Ok::<_, std::io::Error>(Response::new(())));
//! let mut client = ClientLayer::new().layer(http_client);
//! let request = Request::get("http://api.example.com/items").body(String::new())?;
//! let response = client.ready().await?.call(request).await?;
//! # let _ = response;
//! # Ok(())
//! # }
//! ```
//!
//! For each key, by default the host and port of the request:
//!
//! 1. The client's own [limiter](ClientLayer::limiter) is asked first, if there is one.
//! 2. The request waits for its turn, first in, first out: until a pause that the server asked for has ended
//!    (`Retry-After` in a refusal), and with the spacing that its limits allow (`RateLimit`, `RateLimit-Policy`,
//!    `X-RateLimit-*`). A server that refuses without saying more is sent less, and gradually more again. The first
//!    request to a key goes alone, for at most a second, because its response tells the limits.
//! 3. A refusal is [retried](ClientLayer::retries) if the request may be sent twice: with exponential backoff, at
//!    random times, for at most a tenth of the requests. Otherwise the caller gets the refusal as the response that it
//!    is.
//!
//! A request that cannot be sent in time fails at once with a [`ClientError`]. Dropping the future leaves the queue.
//!
//! What remains of a limit is spread over the time until the limit is whole again. A client also measures which share
//! of the limit it uses, so clients that share a key divide it without knowing of each other. This works for any number
//! of instances; a shared limiter is needed only for limits that the server does not publish.
//!
//! A tonic channel and hyper's pooled client are services already. A reqwest client becomes one with a function:
//!
//! ```
//! # fn wrap(client: reqwest::Client) {
//! # use tower::service_fn;
//! let service = service_fn(move |request: http::Request<reqwest::Body>| {
//!     let client = client.clone();
//!     async move { client.execute(request.try_into()?).await.map(http::Response::from) }
//! });
//! # fn is_service<S: tower::Service<http::Request<reqwest::Body>, Response = http::Response<reqwest::Body>>>(_: S) {}
//! # is_service::<_>(service);
//! # }
//! ```

// `pace` decides when a request may leave, as a pure state machine over `share`, `adaptive_rate`,
// `limit_kind` and `server_hint`. `destination` is the queue of one key around it, `destinations` the map of keys, and
// `service` what a request goes through.
mod adaptive_rate;
mod charge;
mod destination;
mod destinations;
mod error;
mod layer;
mod limit_kind;
mod list_field;
mod overload;
mod pace;
mod random;
mod retry;
mod server_hint;
mod service;
mod share;
#[cfg(test)]
mod simulation;

pub use charge::ClientCharge;
pub use error::ClientError;
pub use layer::{ClientLayer, CloneBody, CloneBodyWith, EmptyBodies};
pub use server_hint::{LimitHint, ServerHint};
pub use service::{ClientFuture, PacedClient};
