//! A layer for HTTP and gRPC services: axum, hyper, tonic, whatever tower serves.
//!
//! Every response says where the client stands; a refused one never reaches the
//! service. What the policy needs of a request is read from it: the method, the
//! host, the path, the header fields, and the peer's address from the request's
//! extensions, where axum (feature `axum`) and tonic (feature `tonic`) put it.
//! Other servers insert a [`PeerAddress`], or the layer is told where to look:
//! [`TollgateLayer::peer_address`].

mod guard;
mod layer;
mod refusal;
mod request;
mod response;
mod service;

pub use guard::TrueCost;
pub use layer::TollgateLayer;
pub use request::PeerAddress;
pub use response::{ResponseFuture, TollgateBody};
pub use service::Tollgate;
