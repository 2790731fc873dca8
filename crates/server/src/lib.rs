//! Tollgate as a service.
//!
//! A front end translates a call into a [`Request`](tollgate::Request), the
//! [`Engine`] decides it, and the front end renders the
//! [`Verdict`](tollgate::Verdict). The front ends are HTTP, which alone knows
//! JSON, gRPC, which alone knows protobuf, and [`resp`] for clients of Redis. [`Server`] binds the listeners, serves them
//! and drains them.

mod decision_counters;
mod duration_histogram;
mod engine;
mod front_end;
mod grpc;
mod http;
mod listen;
mod metrics;
mod outcome;
mod receipts;
mod reload_metrics;
pub mod resp;
mod server;
mod service_clock;
mod service_store;
mod shared_store_metrics;
mod snapshot;
mod text_format;
mod throttle;

pub use engine::{Engine, Reload, ReloadError};
pub use front_end::FrontEnd;
pub use http::LimitsBody;
pub use listen::ConnectionLimits;
#[cfg(feature = "tls")]
pub use listen::{Reloaded, Tls, TlsError, TlsFiles};
pub use server::{BindError, Drained, Listener, Listeners, Server};
pub use snapshot::{Beginning, SnapshotError, SnapshotEvent, SnapshotKeeper};
