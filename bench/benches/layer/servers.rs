//! The same small axum server, behind different layers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;

use axum::Router;
use axum::routing::get;
use tollgate::policy::model::{IdentitySource, Tier, TierSource};
use tollgate::{Limiter, LimiterBuilder, rule};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_layer::Layer;
use tower_service::Service;

use crate::load::pin_to_core;

/// Creates the router of a server.
pub(crate) type Start = fn() -> Router;

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    /// The file with the processor time of its thread.
    schedstat: String,
}

impl Running {
    /// Returns the processor time of its thread in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let text = std::fs::read_to_string(&self.schedstat).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }
}

/// Runs a server on a separate thread on the last core.
pub(crate) fn run(start: Start) -> Running {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        pin_to_core(thread::available_parallelism().map_or(1, std::num::NonZero::get) - 1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let thread = std::fs::read_link("/proc/thread-self").unwrap();
            let schedstat = format!("/proc/{}/schedstat", thread.display());
            sender.send(Running { address: listener.local_addr().unwrap(), schedstat }).unwrap();
            axum::serve(listener, start().into_make_service_with_connect_info::<SocketAddr>()).await.unwrap();
        });
    });
    receiver.recv().unwrap()
}

pub(crate) fn plain() -> Router {
    Router::new().route("/api/items", get(async || "hello"))
}

pub(crate) fn tollgate_one_rule() -> Router {
    let rules = Limiter::builder().rule(rule("per-ip").per("client_ip").limit("1000000/s"));
    plain().layer(rules.build().unwrap().layer())
}

pub(crate) fn tollgate_three_rules() -> Router {
    plain().layer(three_rules().build().unwrap().layer())
}

pub(crate) fn tollgate_without_fields() -> Router {
    let silent = three_rules().with(|policy| policy.fields.sets.clear());
    plain().layer(silent.build().unwrap().layer())
}

/// Rules by address, by user and tier, and by endpoint, as an API has them.
fn three_rules() -> LimiterBuilder {
    Limiter::builder()
        .identity("user", IdentitySource::Header("x-user-id".to_owned()))
        .with(|policy| {
            let source =
                TierSource::Listed { by: "user".to_owned(), tiers: vec![("bob".to_owned(), "pro".to_owned())] };
            policy.tier = Some(Tier { source, default: "free".to_owned(), trusted: true });
        })
        .rule(rule("per-ip").per("client_ip").limit("1000000/s"))
        .rule(rule("per-user").per("user").tier("free", "1000000/s").tier("pro", "2000000/s"))
        .rule(rule("items").path("/api/*").per("user").per("route").limit("1000000/s"))
}

pub(crate) fn governor() -> Router {
    let config = GovernorConfigBuilder::default().per_nanosecond(1000).burst_size(1_000_000).finish().unwrap();
    plain().layer(GovernorLayer::new(Arc::new(config)))
}

pub(crate) fn governor_with_fields() -> Router {
    let mut builder = GovernorConfigBuilder::default();
    let config = builder.per_nanosecond(1000).burst_size(1_000_000).use_headers().finish().unwrap();
    plain().layer(GovernorLayer::new(Arc::new(config)))
}

/// A router with a layer that does nothing: the cost of boxing, cloning and calling one more service.
pub(crate) fn nothing() -> Router {
    plain().layer(Nothing)
}

#[derive(Clone)]
struct Nothing;

#[derive(Clone)]
struct DoingNothing<S>(S);

impl<S> Layer<S> for Nothing {
    type Service = DoingNothing<S>;

    fn layer(&self, inner: S) -> DoingNothing<S> {
        DoingNothing(inner)
    }
}

impl<R, S: Service<R>> Service<R> for DoingNothing<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.0.call(request)
    }
}
