//! Tollgate as a service.
//!
//! A front end translates a call into a [`Request`], the [`Engine`] decides it,
//! and the front end renders the [`Answer`]. There is one front end so far:
//! HTTP with JSON, which alone knows JSON. [`Server`] binds the listeners,
//! serves them and drains them.

mod answer;
mod client_address;
mod duration_histogram;
mod engine;
mod front_end;
mod http;
mod metrics;
mod request;
mod server;
mod starter;
mod text_format;

pub use answer::{Action, Answer, RuleAnswer};
pub use engine::{Engine, StartError};
pub use front_end::FrontEnd;
pub use request::Request;
pub use server::{BindError, Drained, Listener, Listeners, Server};
