//! Tollgate as a service.
//!
//! A front end translates a call into a [`Request`](tollgate::Request), the
//! [`Engine`] decides it, and the front end renders the
//! [`Verdict`](tollgate::Verdict). The front ends are HTTP, which alone knows
//! JSON, gRPC, which alone knows protobuf, and [`resp`] for clients of Redis. [`Server`] binds the listeners, serves them
//! and drains them.

mod access;
mod decided;
mod engine;
mod front_end;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grpc;
mod http;
mod listen;
mod metrics;
pub mod observe;
mod receipts;
pub mod resp;
mod rule_metrics;
mod server;
mod snapshot;
mod store;
mod throttle;
mod whole_body;
mod within;

pub use access::{AccessToken, CallerAccess, TokenError};
pub use engine::{Engine, Reload, ReloadError};
pub use front_end::FrontEnd;
pub use http::{LimitsBody, PromiseBody, ReloadRequest};
pub use listen::{ConnectionLimits, usable_descriptors};
#[cfg(feature = "tls")]
pub use listen::{Reloaded, Tls, TlsError, TlsFiles};
pub use server::{AdminAccess, BindError, Drained, Listener, Listeners, Server};
pub use snapshot::{Beginning, SnapshotError, SnapshotEvent, SnapshotKeeper};
