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

use super::problem::Problem;
use super::routes::Routes;
use crate::listen::{Activity, ActivityStream, Connection, ConnectionLimits, Resource, Share, StopFlag, WithDeadline};
use crate::whole_body::{BodyLimits, WholeBody, read_whole};

/// More header fields than a browser and three proxies send together.
const MAX_HEADER_FIELDS: usize = 100;

/// Room for the cookies and tokens that gateways pass on.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// What a connection reads ahead, and how much of its answers waits to be written before it reads on.
const MAX_BUFFER_BYTES: usize = 64 << 10;

/// A body of at most so many bytes is read without asking for room: every connection may hold it.
const FREE_BYTES: usize = 16 << 10;

/// A body that is read and understood takes its own length a few times.
const LENGTHS_HELD: usize = 3;

/// The connection that a request came on, among the request's extensions.
#[derive(Debug)]
pub(crate) struct Caller {
    /// Who is at the other end of it.
    pub(crate) address: IpAddr,
    /// How long the body of a request may take.
    pub(crate) body_timeout: Duration,
    /// Whether the service is about to end.
    pub(crate) stopping: StopFlag,
    /// What the connection may hold, together with others of its address.
    pub(crate) share: Arc<Share>,
    pub(crate) activity: Activity,
    pub(crate) routes: Routes,
}

/// Serves HTTP/1.1 on one connection until either end closes it, or it has taken too long.
pub(crate) async fn serve_connection(accepted: Connection, routes: Routes, limits: ConnectionLimits) {
    let Connection { stream, address, mut stopped, share } = accepted;
    let activity = Activity::new();
    let stream = TokioIo::new(ActivityStream::new(stream, activity.clone()));
    let caller = Arc::new(Caller {
        address: address.ip(),
        body_timeout: limits.body_timeout,
        stopping: StopFlag::new(stopped.clone()),
        share,
        activity: activity.clone(),
        routes,
    });
    let answer = service_fn(move |request: Request<Incoming>| {
        let in_flight = RequestInFlight::new(&caller);
        let request = caller.routes.find(request);
        async move {
            let caller = &in_flight.0;
            let mut response = caller.routes.answer(request, caller).await;
            if caller.stopping.is_up() {
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

impl Caller {
    /// Reads a whole body, which is neither too large nor too slow. A large one waits for room.
    pub(super) async fn read_body<B>(&self, body: B, max_bytes: usize) -> Result<WholeBody, Problem>
    where
        B: HttpBody<Data = Bytes, Error: Display>,
    {
        let limits = BodyLimits {
            max_bytes,
            free_bytes: FREE_BYTES,
            lengths_held: LENGTHS_HELD,
            at_most: self.body_timeout,
            length_by: |_| None,
        };
        let reserve = async |bytes| Some(self.share.reserve(Resource::RequestBytes, bytes).await);
        read_whole(body, limits, reserve).await.map_err(|error| Problem::of_body(error, limits))
    }
}

/// A request whose response has not ended, on its connection.
struct RequestInFlight(Arc<Caller>);

impl RequestInFlight {
    fn new(caller: &Arc<Caller>) -> RequestInFlight {
        caller.activity.begin_request();
        RequestInFlight(Arc::clone(caller))
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.activity.end_request();
    }
}

/// The body of a response: all of it in memory, or what the router's
/// handlers make.
pub(crate) type ResponseBody = Either<Full<Bytes>, Body>;

pin_project! {
    /// The body of a response. Until it has ended, the request is in flight.
    struct UntilEnd {
        #[pin]
        body: ResponseBody,
        _in_flight: RequestInFlight,
    }
}

impl HttpBody for UntilEnd {
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
