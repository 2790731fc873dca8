//! Tollgate as a service.
//!
//! A front end translates a call into a [`Request`](tollgate::Request), the
//! [`Engine`] decides it, and the front end renders the
//! [`Verdict`](tollgate::Verdict). There are two front ends so far:
//! HTTP, which alone knows JSON, and gRPC, which alone knows protobuf. [`Server`] binds the listeners, serves them
//! and drains them.

mod duration_histogram;
mod engine;
mod front_end;
mod grpc;
mod http;
mod metrics;
mod outcome;
mod server;
mod service_clock;
mod text_format;

pub use engine::Engine;
pub use front_end::FrontEnd;
pub use http::LimitsBody;
pub use server::{BindError, Drained, Listener, Listeners, Server};
