use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::http::{HeaderValue, Request, header};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;

use super::response_body::ResponseBody;
use super::routes::Routes;
use crate::listen::{Activity, ActivityStream, Connection, ConnectionLimits, Share, StopFlag, WithDeadline};

/// More header fields than a browser and three proxies send together.
const MAX_HEADER_FIELDS: usize = 100;

/// Room for the cookies and tokens that gateways pass on.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// What a connection reads ahead, and how much of its answers waits to be written before it reads on.
const MAX_BUFFER_BYTES: usize = 64 << 10;

/// What handlers may know of the connection, among a request's extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// Who is at the other end of it.
    pub(crate) address: IpAddr,
    /// How long the body may take.
    pub(crate) body_timeout: Duration,
    /// Whether the service is about to end.
    pub(crate) is_stopping: bool,
}

/// What a connection may hold, and how long; among a request's extensions.
#[derive(Debug)]
pub(crate) struct ConnectionShare {
    pub(crate) share: Arc<Share>,
    pub(crate) activity: Activity,
}

/// What all requests of a connection have in common.
struct HttpConnection {
    routes: Routes,
    address: IpAddr,
    body_timeout: Duration,
    stopping: StopFlag,
    share: Arc<ConnectionShare>,
}

/// Serves HTTP/1.1 on one connection until either end closes it, or it has taken too long.
pub(crate) async fn serve_connection(accepted: Connection, routes: Routes, limits: ConnectionLimits) {
    let Connection { stream, address, mut stopped, share } = accepted;
    let activity = Activity::new();
    let stream = TokioIo::new(ActivityStream::new(stream, activity.clone()));
    let connection = Arc::new(HttpConnection {
        routes,
        address: address.ip(),
        body_timeout: limits.body_timeout,
        stopping: StopFlag::new(stopped.clone()),
        share: Arc::new(ConnectionShare { share, activity: activity.clone() }),
    });
    let answer = service_fn(move |request: Request<Incoming>| {
        let in_flight = RequestInFlight::new(&connection);
        let request = connection.routes.find(request);
        async move {
            let HttpConnection { routes, stopping, share, .. } = &*in_flight.0;
            let (address, body_timeout) = (in_flight.0.address, in_flight.0.body_timeout);
            let caller = Caller { address, body_timeout, is_stopping: stopping.is_up() };
            let mut response = routes.answer(request, caller, share).await;
            if stopping.is_up() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| UntilEnd { body, _in_flight: in_flight }))
        }
    });
    let connection = http1::Builder::new()
        .max_headers(MAX_HEADER_FIELDS)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(stream, answer);
    // Whatever the other end did wrong was its own connection's end, and nobody else's business.
    WithDeadline::new(connection, activity.overdue(&limits, &mut stopped)).await;
}

/// A request whose response has not ended, on its connection.
struct RequestInFlight(Arc<HttpConnection>);

impl RequestInFlight {
    fn new(connection: &Arc<HttpConnection>) -> RequestInFlight {
        connection.share.activity.begin_request();
        RequestInFlight(Arc::clone(connection))
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.share.activity.end_request();
    }
}

pin_project! {
    /// The body of a response. Until it has ended, the request is under way.
    struct UntilEnd {
        #[pin]
        body: ResponseBody,
        _in_flight: RequestInFlight,
    }
}

impl HttpBody for UntilEnd {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
