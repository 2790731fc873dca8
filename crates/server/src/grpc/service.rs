//! Which call is for whom.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use pin_project_lite::pin_project;
use prost::Message;
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

use super::calls::{Call, Calls, OpenCall};
use super::health::{self, Watch};
use super::limits::{CONVERSATION_WITHIN, MAX_MESSAGE_BYTES};
use super::reflection::Reflection;
use super::unary::{GrpcBody, LIMITS, SMALL_LIMITS, failed, read_message, unary};
use super::{GrpcFrontEnd, rate_limit};
use crate::access::bearer_token;
use crate::listen::Resource;
use crate::observe::WhyRefused;
use crate::server::Listener;

/// The services, by name.
pub(super) const SERVICES: [&str; 4] = [
    "envoy.service.ratelimit.v3.RateLimitService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// How the messages of a call are compressed.
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// All services of the front end on one connection.
#[derive(Debug)]
pub(super) struct ConnectionService {
    pub(super) front_end: Arc<GrpcFrontEnd>,
    /// Where the connection comes from.
    pub(super) caller: IpAddr,
    pub(super) calls: Arc<Calls>,
}

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    ShouldRateLimit,
    HealthCheck,
    HealthWatch,
    Reflection,
    Unknown,
}

impl ConnectionService {
    /// Whether a call may be answered. Probes have no token, and learn nothing but that the service runs.
    fn admit(&self, head: &Parts) -> Result<(), Status> {
        let Some(token) = &self.front_end.token else { return Ok(()) };
        if matches!(Method::of(head.uri.path()), Method::HealthCheck | Method::HealthWatch) {
            return Ok(());
        }
        let (why, message) = match bearer_token(&head.headers) {
            Some(sent) if token.is(sent) => return Ok(()),
            Some(_) => (WhyRefused::WrongToken, "this is not the access token"),
            None => (WhyRefused::NoToken, "this needs the access token as metadata: `authorization: Bearer TOKEN`"),
        };
        let observer = self.front_end.engine.observer();
        observer.note_refused_call(Listener::Grpc.name(), why, head.method.as_str(), self.caller);
        Err(Status::unauthenticated(message))
    }
}

impl GrpcFrontEnd {
    /// What gateways ask for every request.
    async fn should_rate_limit(self: Arc<GrpcFrontEnd>, call: Call, body: Incoming) -> Answered {
        let GrpcFrontEnd { engine, overrides, .. } = &*self;
        let answer = async |asked, out: &mut _| rate_limit::answer(engine, overrides, &asked, out).await;
        Ok(unary(call, LIMITS, body, answer).await)
    }

    async fn health_check(self: Arc<GrpcFrontEnd>, call: Call, body: Incoming) -> Answered {
        let check = async |asked, out: &mut Vec<u8>| {
            health::check(*self.stopped.borrow(), &asked).map(|health| health.encode_raw(out))
        };
        Ok(unary(call, SMALL_LIMITS, body, check).await)
    }

    /// A watch stays open, but its message must come in time like any other.
    async fn health_watch(self: Arc<GrpcFrontEnd>, calls: Arc<Calls>, call: Call, body: Incoming) -> Answered {
        let message = match read_message(&call, SMALL_LIMITS, body).await {
            Ok(message) => message.into_bytes(),
            Err(status) => return Ok(failed(status)),
        };
        let Some(open) = calls.open(Resource::Watches) else { return too_many_open() };
        drop(call);
        let watch = Watch(self.stopped.clone());
        let answer = grpc().server_streaming(watch, Request::new(Full::new(message))).await;
        Ok(answer.map(|body| GrpcBody::Right(HeldBody::holding(body, open, None))))
    }

    async fn reflection(
        self: Arc<GrpcFrontEnd>,
        calls: Arc<Calls>,
        encoding: Option<HeaderValue>,
        body: Incoming,
    ) -> Answered {
        let Some(open) = calls.open(Resource::Conversations) else { return too_many_open() };
        let mut request = Request::new(body);
        request.headers_mut().extend(encoding.map(|encoding| (ENCODING, encoding)));
        let answer = grpc().streaming(Reflection(self.stopped.clone()), request).await;
        Ok(answer.map(|body| GrpcBody::Right(HeldBody::holding(body, open, Some(CONVERSATION_WITHIN)))))
    }
}

/// A call that is not answered has an answer that says so.
type Answered = Result<Response<GrpcBody>, Infallible>;

impl Method {
    fn of(path: &str) -> Method {
        match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Method::ShouldRateLimit,
            "/grpc.health.v1.Health/Check" => Method::HealthCheck,
            "/grpc.health.v1.Health/Watch" => Method::HealthWatch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Method::Reflection,
            _ => Method::Unknown,
        }
    }
}

pin_project! {
    /// The answers of a call that stays open. It has its place until they end.
    struct HeldBody {
        #[pin]
        body: Body,
        #[pin]
        at_most: Option<Sleep>,
        _open: OpenCall,
    }
}

impl HeldBody {
    /// For as long as the client wishes, or no longer than so long.
    fn holding(body: Body, open: OpenCall, at_most: Option<Duration>) -> Body {
        Body::new(HeldBody { body, at_most: at_most.map(tokio::time::sleep), _open: open })
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        if this.at_most.as_pin_mut().is_some_and(|sleep| sleep.poll(context).is_ready()) {
            return Poll::Ready(Some(Err(Status::deadline_exceeded("the call was open for too long"))));
        }
        this.body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

fn too_many_open() -> Answered {
    Ok(failed(Status::resource_exhausted("too many calls are open on this connection, or from this address")))
}

fn grpc<Q, A>() -> Grpc<ProstCodec<A, Q>>
where
    Q: Message + Default + 'static,
    A: Message + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_MESSAGE_BYTES)
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answered> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let call = self.calls.begin();
        // The fields are let go of before anything is waited for: they take many times what was sent of them.
        let (mut head, body) = request.into_parts();
        let refused = if self.calls.has_too_many_fields(head.headers.len()) {
            Err(Status::resource_exhausted("there are too many fields"))
        } else {
            self.admit(&head)
        };
        if let Err(status) = refused {
            return Box::pin(ready(Ok(failed(status))));
        }
        let front_end = Arc::clone(&self.front_end);
        // One future for each, because some are ten times as large as others, and all are moved to the heap.
        match Method::of(head.uri.path()) {
            Method::ShouldRateLimit => Box::pin(front_end.should_rate_limit(call, body)),
            Method::HealthCheck => Box::pin(front_end.health_check(call, body)),
            Method::HealthWatch => Box::pin(front_end.health_watch(Arc::clone(&self.calls), call, body)),
            Method::Reflection => {
                let encoding = head.headers.remove(ENCODING);
                Box::pin(front_end.reflection(Arc::clone(&self.calls), encoding, body))
            }
            Method::Unknown => Box::pin(ready(Ok(failed(Status::unimplemented("there is no such method"))))),
        }
    }
}
