use std::convert::Infallible;
use std::fmt::Display;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Request, header};
use http_body::{Frame, SizeHint};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;

use super::problem::ProblemDetails;
use super::routes::HttpRouter;
use crate::listen::{
    AcceptedConnection, Activity, ActivityStream, AddressShare, ConnectionLimits, Resource, StopFlag, WithDeadline,
};
use crate::request_body::{BodyLimits, CompleteBody, collect_body};

/// More header fields than a browser and three proxies send together.
const MAX_HEADER_FIELDS: usize = 100;

/// Enough for the cookies and tokens that gateways forward.
const MAX_HEADER_BYTES: usize = 32 << 10;

/// The read-ahead of a connection, and how many response bytes are buffered before it reads on.
const MAX_BUFFER_BYTES: usize = 64 << 10;

/// Bodies up to this size need no memory reservation: every connection may have one.
const UNRESERVED_BYTES: usize = 16 << 10;

/// The memory of a parsed body, as a multiple of its length.
const MEMORY_FACTOR: usize = 3;

/// The connection of a request, stored in the request's extensions.
#[derive(Debug)]
pub(crate) struct HttpCaller {
    /// The address of the peer.
    pub(crate) address: IpAddr,
    /// The timeout of a request body.
    pub(crate) body_timeout: Duration,
    /// Whether the service is stopping.
    pub(crate) stopping: StopFlag,
    /// Resources shared with other connections of the address.
    pub(crate) share: Arc<AddressShare>,
    pub(crate) activity: Activity,
    pub(crate) routes: HttpRouter,
}

/// Serves HTTP/1.1 on one connection until either side closes it or a timeout expires.
pub(crate) async fn serve_connection(accepted: AcceptedConnection, routes: HttpRouter, limits: ConnectionLimits) {
    let AcceptedConnection { stream, address, mut stopped, share } = accepted;
    let activity = Activity::new();
    let stream = TokioIo::new(ActivityStream::new(stream, activity.clone()));
    let caller = Arc::new(HttpCaller {
        address: address.ip(),
        body_timeout: limits.body_timeout,
        stopping: StopFlag::new(stopped.clone()),
        share,
        activity: activity.clone(),
        routes,
    });
    let service = service_fn(move |request: Request<Incoming>| {
        let in_flight = RequestInFlight::new(&caller);
        let request = caller.routes.find(request);
        async move {
            let caller = &in_flight.0;
            let mut response = caller.routes.respond(request, caller).await;
            if caller.stopping.is_set() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| InFlightBody { body, _in_flight: in_flight }))
        }
    });
    let connection = http1::Builder::new()
        .max_headers(MAX_HEADER_FIELDS)
        .max_header_size(MAX_HEADER_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES)
        .serve_connection(stream, service);
    // A protocol error ends only this connection.
    WithDeadline::new(connection, activity.overdue(&limits, &mut stopped)).await;
}

impl HttpCaller {
    /// Reads a complete body within its limits. A large one waits for a reservation.
    pub(super) async fn read_body<B>(&self, body: B, max_bytes: usize) -> Result<CompleteBody, ProblemDetails>
    where
        B: HttpBody<Data = Bytes, Error: Display>,
    {
        let limits = BodyLimits {
            max_bytes,
            unreserved_bytes: UNRESERVED_BYTES,
            memory_factor: MEMORY_FACTOR,
            timeout: self.body_timeout,
            announced_length: |_| None,
        };
        let reserve = async |bytes| Some(self.share.reserve(Resource::RequestBytes, bytes).await);
        collect_body(body, limits, reserve).await.map_err(|error| ProblemDetails::of_body(error, limits))
    }
}

/// A request in flight on its connection.
struct RequestInFlight(Arc<HttpCaller>);

impl RequestInFlight {
    fn new(caller: &Arc<HttpCaller>) -> RequestInFlight {
        caller.activity.begin_request();
        RequestInFlight(Arc::clone(caller))
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.activity.end_request();
    }
}

/// The body of a response: in memory, or made by a handler of the router.
pub(crate) type ResponseBody = Either<Full<Bytes>, Body>;

pin_project! {
    /// The body of a response. The request is in flight until it ends.
    struct InFlightBody {
        #[pin]
        body: ResponseBody,
        _in_flight: RequestInFlight,
    }
}

impl HttpBody for InFlightBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
