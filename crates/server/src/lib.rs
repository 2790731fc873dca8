//! Tollgate as a service.
//!
//! A front end translates a call into a [`Request`](tollgate::Request), the [`Engine`] decides it, and the front end
//! renders the [`Verdict`](tollgate::Verdict). Only the HTTP front end depends on JSON, only the gRPC front end on
//! protobuf, and only [`resp`] on the Redis protocol. [`Server`] binds the listeners, serves them and drains them.

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
mod policy_source;
mod receipts;
mod request_body;
pub mod resp;
mod rule_metrics;
mod server;
mod snapshot;
mod store;
mod throttle;
mod timeout_unless_ready;

pub use access::{AccessToken, CallerAccess, TokenError};
pub use engine::{Engine, Reload, ReloadError};
pub use front_end::FrontEnd;
pub use http::{ComparisonBody, ExplanationBody, LimitsBody, PromiseBody, ReloadRequest};
pub use listen::{ConnectionLimits, usable_descriptors};
#[cfg(feature = "tls")]
pub use listen::{Reloaded, Tls, TlsError, TlsFiles};
pub use policy_source::PolicySource;
pub use server::{AdminAccess, BindError, Drained, Listener, Listeners, Server};
pub use snapshot::{SnapshotError, SnapshotEvent, SnapshotWriter, StartupSnapshot};
