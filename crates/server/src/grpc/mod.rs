//! The gRPC front end, for Envoy and other gateways: the only part that depends on protobuf. Messages are defined in
//! Rust, so that the build needs no protobuf compiler.

mod backpressure;
#[cfg(fuzzing)]
mod bytes;
mod calls;
mod health;
mod limits;
mod rate_limit;
mod reflection;
mod service;
mod unary;

use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::access::AccessToken;
use crate::engine::Engine;
use crate::listen::{AcceptedConnection, Activity, ActivityStream, ConnectionLimits, WithDeadline, until_stopped};
use backpressure::BackpressureStream;
#[cfg(fuzzing)]
pub use bytes::RlsOutcome;
#[cfg(fuzzing)]
pub(crate) use bytes::rls_outcome;
use calls::Calls;
use rate_limit::override_limits::OverrideLimits;
use service::ConnectionService;

/// The gRPC services.
#[derive(Debug)]
pub(crate) struct GrpcFrontEnd {
    engine: Arc<Engine>,
    /// Limits supplied by gateways.
    overrides: OverrideLimits,
    /// The token that callers must send as `authorization: Bearer`, if any.
    token: Option<AccessToken>,
    stopped: watch::Receiver<bool>,
}

impl GrpcFrontEnd {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        token: Option<AccessToken>,
        stopped: watch::Receiver<bool>,
    ) -> Arc<GrpcFrontEnd> {
        let overrides = OverrideLimits::default();
        Arc::new(GrpcFrontEnd { engine: Arc::clone(engine), overrides, token, stopped })
    }

    /// Serves one connection until the peer closes it, a timeout expires, or the service stops and every call in
    /// flight is answered.
    pub(crate) async fn serve_connection(
        self: Arc<GrpcFrontEnd>,
        accepted: AcceptedConnection,
        limits: ConnectionLimits,
    ) {
        let calls = Calls::new(accepted.share);
        let activity = Activity::new();
        let io = BackpressureStream::new(ActivityStream::new(accepted.stream, activity.clone()), Arc::clone(&calls));
        let service = ConnectionService { front_end: self, caller: accepted.address.ip(), calls: Arc::clone(&calls) };
        let overdue = calls.overdue(limits.write_timeout, &activity);
        WithDeadline::new(serve_calls(io, service), overdue).await;
    }
}

async fn serve_calls(
    mut io: BackpressureStream<impl AsyncRead + AsyncWrite + Send + Unpin + 'static>,
    service: ConnectionService,
) {
    let mut stopped = service.front_end.stopped.clone();
    let read_preface = {
        let mut preface = pin!(tokio::time::timeout(limits::PREFACE_TIMEOUT, io.read_preface()));
        tokio::select! {
            read_preface = &mut preface => read_preface,
            // A client that has just connected may have sent a request already; then this short timeout suffices.
            () = until_stopped(&mut stopped) => {
                tokio::time::timeout(limits::PREFACE_TIMEOUT_WHILE_STOPPING, preface).await.and_then(|read_preface| read_preface)
            }
        }
    };
    if !read_preface.unwrap_or(false) {
        return;
    }
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::MAX_CALLS_PER_CONNECTION)
        .max_header_list_size(limits::MAX_HEADER_BYTES)
        .initial_connection_window_size(limits::WINDOW_BYTES)
        .initial_stream_window_size(limits::WINDOW_BYTES)
        .keep_alive_interval(limits::PING_INTERVAL)
        .keep_alive_timeout(limits::PING_TIMEOUT)
        .serve_connection(TokioIo::new(io), service);
    tokio::pin!(connection);
    tokio::select! {
        // An error of the peer ends only this connection.
        _ = &mut connection => return,
        () = until_stopped(&mut stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
