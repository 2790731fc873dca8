//! The gRPC front end: how Envoy and other gateways ask. The only part that
//! knows protobuf. Messages are written by hand, so that nobody needs a compiler for them.

#[cfg(fuzzing)]
mod bytes;
mod calls;
mod gate;
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
use crate::listen::{Activity, ActivityStream, Connection, ConnectionLimits, WithDeadline, until_stopped};
#[cfg(fuzzing)]
pub use bytes::Answered;
#[cfg(fuzzing)]
pub(crate) use bytes::answer_bytes;
use calls::Calls;
use gate::Gate;
use rate_limit::override_limits::OverrideLimits;
use service::ConnectionService;

/// What gateways ask, over HTTP/2.
#[derive(Debug)]
pub(crate) struct GrpcFrontEnd {
    engine: Arc<Engine>,
    /// The limits that gateways bring along.
    overrides: OverrideLimits,
    /// What callers must send as `authorization: Bearer`, if anything.
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

    /// Serves one connection until the other end has gone, takes too long for something, or it is stopped and every
    /// call under way is answered.
    pub(crate) async fn serve_connection(self: Arc<GrpcFrontEnd>, accepted: Connection, limits: ConnectionLimits) {
        let calls = Calls::new(accepted.share);
        let activity = Activity::new();
        let io = Gate::new(ActivityStream::new(accepted.stream, activity.clone()), Arc::clone(&calls));
        let service = ConnectionService { front_end: self, caller: accepted.address.ip(), calls: Arc::clone(&calls) };
        let overdue = calls.overdue(limits.write_timeout, &activity);
        WithDeadline::new(serve_calls(io, service), overdue).await;
    }
}

async fn serve_calls(mut io: Gate<impl AsyncRead + AsyncWrite + Send + Unpin + 'static>, service: ConnectionService) {
    let mut stopped = service.front_end.stopped.clone();
    let greeted = {
        let mut greeting = pin!(tokio::time::timeout(limits::GREETED_WITHIN, io.greeted()));
        tokio::select! {
            greeted = &mut greeting => greeted,
            // Who has just connected may have asked already; then this moment is all it takes.
            () = until_stopped(&mut stopped) => {
                tokio::time::timeout(limits::GREETED_WHILE_STOPPING, greeting).await.and_then(|greeted| greeted)
            }
        }
    };
    if !greeted.unwrap_or(false) {
        return;
    }
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::MAX_CALLS_PER_CONNECTION)
        .max_header_list_size(limits::MAX_HEADER_BYTES)
        .initial_connection_window_size(limits::WINDOW_BYTES)
        .initial_stream_window_size(limits::WINDOW_BYTES)
        .keep_alive_interval(limits::PING_EVERY)
        .keep_alive_timeout(limits::PING_ANSWERED_WITHIN)
        .serve_connection(TokioIo::new(io), service);
    tokio::pin!(connection);
    tokio::select! {
        // Whatever went wrong, it was the other end's, and it has gone.
        _ = &mut connection => return,
        () = until_stopped(&mut stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
