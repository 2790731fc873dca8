//! The gRPC front end: how Envoy and other gateways ask. The only part that
//! knows protobuf. Messages are written by hand, so that nobody needs a compiler for them.

#[cfg(fuzzing)]
mod bytes;
mod calls;
mod gate;
mod health;
mod held_body;
mod limits;
mod preface;
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
use service::Services;

/// What gateways ask, over HTTP/2.
#[derive(Clone, Debug)]
pub(crate) struct GrpcFrontEnd {
    services: Services,
    stopped: watch::Receiver<bool>,
}

impl GrpcFrontEnd {
    /// Answers callers that send `token` as `authorization: Bearer`, or every caller where there is none.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        token: Option<AccessToken>,
        stopped: watch::Receiver<bool>,
    ) -> GrpcFrontEnd {
        let overrides = Arc::new(OverrideLimits::default());
        GrpcFrontEnd { services: Services::new(Arc::clone(engine), overrides, token, stopped.clone()), stopped }
    }

    /// Serves one connection until the other end has gone, takes too long for something, or it is stopped and every
    /// call under way is answered.
    pub(crate) async fn serve_connection(mut self, accepted: Connection, limits: ConnectionLimits) {
        self.services = self.services.for_caller(accepted.address.ip());
        let calls = Calls::new(accepted.share);
        let activity = Activity::new();
        let io = Gate::new(ActivityStream::new(accepted.stream, activity.clone()), Arc::clone(&calls));
        let overdue = calls.overdue(limits.write_timeout, &activity);
        WithDeadline::new(self.serve_calls(io, Arc::clone(&calls)), overdue).await;
    }

    async fn serve_calls(self, io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, calls: Arc<Calls>) {
        let mut stopped = self.stopped;
        let mut greeting = pin!(tokio::time::timeout(limits::GREETED_WITHIN, preface::greeted(io)));
        let greeted = tokio::select! {
            greeted = &mut greeting => greeted,
            // Who has just connected may have asked already; then this moment is all it takes.
            () = until_stopped(&mut stopped) => {
                tokio::time::timeout(limits::GREETED_WHILE_STOPPING, greeting).await.and_then(|greeted| greeted)
            }
        };
        let Ok(Some(io)) = greeted else { return };
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits::MAX_CALLS_PER_CONNECTION)
            .max_header_list_size(limits::MAX_HEADER_BYTES)
            .initial_connection_window_size(limits::WINDOW_BYTES)
            .initial_stream_window_size(limits::WINDOW_BYTES)
            .keep_alive_interval(limits::PING_EVERY)
            .keep_alive_timeout(limits::PING_ANSWERED_WITHIN)
            .serve_connection(TokioIo::new(io), self.services.on(calls));
        tokio::pin!(connection);
        tokio::select! {
            // Whatever went wrong, it was the other end's, and it has gone.
            _ = &mut connection => return,
            () = until_stopped(&mut stopped) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}
