//! Routing of calls to services.

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

use super::calls::{CallInFlight, Calls, OpenCall};
use super::health::{self, HealthWatch};
use super::limits::{MAX_MESSAGE_BYTES, REFLECTION_TIMEOUT};
use super::reflection::Reflection;
use super::unary::{GrpcBody, LIMITS, SMALL_LIMITS, failed, read_message, unary};
use super::{GrpcFrontEnd, rate_limit};
use crate::access::bearer_token;
use crate::listen::Resource;
use crate::observe::CallRefusal;
use crate::server::Listener;

/// The services, by name.
pub(super) const SERVICES: [&str; 4] = [
    "envoy.service.ratelimit.v3.RateLimitService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// The compression of a call's messages.
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// The gRPC services on one connection.
#[derive(Debug)]
pub(super) struct ConnectionService {
    pub(super) front_end: Arc<GrpcFrontEnd>,
    /// The address of the peer.
    pub(super) caller: IpAddr,
    pub(super) calls: Arc<Calls>,
}

/// The supported methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrpcMethod {
    ShouldRateLimit,
    HealthCheck,
    HealthWatch,
    Reflection,
    Unknown,
}

impl ConnectionService {
    /// Authenticates a call. Health checks need no token, and reveal only that the service runs.
    fn admit(&self, head: &Parts) -> Result<(), Status> {
        let Some(token) = &self.front_end.token else { return Ok(()) };
        if matches!(GrpcMethod::of(head.uri.path()), GrpcMethod::HealthCheck | GrpcMethod::HealthWatch) {
            return Ok(());
        }
        let (why, message) = match bearer_token(&head.headers) {
            Some(sent) if token.matches(sent) => return Ok(()),
            Some(_) => (CallRefusal::WrongToken, "wrong access token"),
            None => (CallRefusal::NoToken, "the access token is required as metadata: `authorization: Bearer TOKEN`"),
        };
        let observer = self.front_end.engine.observer();
        observer.note_refused_call(Listener::Grpc.name(), why, head.method.as_str(), self.caller);
        Err(Status::unauthenticated(message))
    }
}

impl GrpcFrontEnd {
    /// `ShouldRateLimit`, which gateways call for every request.
    async fn should_rate_limit(self: Arc<GrpcFrontEnd>, call: CallInFlight, body: Incoming) -> GrpcResult {
        let GrpcFrontEnd { engine, overrides, .. } = &*self;
        let decide = async |request, out: &mut _| rate_limit::should_rate_limit(engine, overrides, &request, out).await;
        Ok(unary(call, LIMITS, body, decide).await)
    }

    async fn health_check(self: Arc<GrpcFrontEnd>, call: CallInFlight, body: Incoming) -> GrpcResult {
        let check = async |request, out: &mut Vec<u8>| {
            health::check(*self.stopped.borrow(), &request).map(|health| health.encode_raw(out))
        };
        Ok(unary(call, SMALL_LIMITS, body, check).await)
    }

    /// A watch stays open, but its message has the usual timeout.
    async fn health_watch(
        self: Arc<GrpcFrontEnd>,
        calls: Arc<Calls>,
        call: CallInFlight,
        body: Incoming,
    ) -> GrpcResult {
        let message = match read_message(&call, SMALL_LIMITS, body).await {
            Ok(message) => message.into_bytes(),
            Err(status) => return Ok(failed(status)),
        };
        let Some(open) = calls.open(Resource::Watches) else { return too_many_open() };
        drop(call);
        let watch = HealthWatch(self.stopped.clone());
        let response = grpc().server_streaming(watch, Request::new(Full::new(message))).await;
        Ok(response.map(|body| GrpcBody::Right(OpenCallBody::with_slot(body, open, None))))
    }

    async fn reflection(
        self: Arc<GrpcFrontEnd>,
        calls: Arc<Calls>,
        encoding: Option<HeaderValue>,
        body: Incoming,
    ) -> GrpcResult {
        let Some(open) = calls.open(Resource::ReflectionStreams) else { return too_many_open() };
        let mut request = Request::new(body);
        request.headers_mut().extend(encoding.map(|encoding| (ENCODING, encoding)));
        let response = grpc().streaming(Reflection(self.stopped.clone()), request).await;
        Ok(response.map(|body| GrpcBody::Right(OpenCallBody::with_slot(body, open, Some(REFLECTION_TIMEOUT)))))
    }
}

/// Failed calls are responses with a gRPC status.
type GrpcResult = Result<Response<GrpcBody>, Infallible>;

impl GrpcMethod {
    fn of(path: &str) -> GrpcMethod {
        match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => GrpcMethod::ShouldRateLimit,
            "/grpc.health.v1.Health/Check" => GrpcMethod::HealthCheck,
            "/grpc.health.v1.Health/Watch" => GrpcMethod::HealthWatch,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => GrpcMethod::Reflection,
            _ => GrpcMethod::Unknown,
        }
    }
}

pin_project! {
    /// The body of a long-lived call. It holds its slot until it ends.
    struct OpenCallBody {
        #[pin]
        body: Body,
        #[pin]
        timeout: Option<Sleep>,
        _open: OpenCall,
    }
}

impl OpenCallBody {
    /// Creates the body, with an optional time limit.
    fn with_slot(body: Body, open: OpenCall, timeout: Option<Duration>) -> Body {
        Body::new(OpenCallBody { body, timeout: timeout.map(tokio::time::sleep), _open: open })
    }
}

impl HttpBody for OpenCallBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        if this.timeout.as_pin_mut().is_some_and(|sleep| sleep.poll(context).is_ready()) {
            return Poll::Ready(Some(Err(Status::deadline_exceeded("the call was open for too long"))));
        }
        this.body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

fn too_many_open() -> GrpcResult {
    Ok(failed(Status::resource_exhausted("too many calls are open on this connection, or from this address")))
}

fn grpc<Req, Res>() -> Grpc<ProstCodec<Res, Req>>
where
    Req: Message + Default + 'static,
    Res: Message + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_MESSAGE_BYTES)
}

impl hyper::service::Service<Request<Incoming>> for ConnectionService {
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = GrpcResult> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let call = self.calls.begin();
        // The fields are dropped before anything waits: they take many times their encoded size.
        let (mut head, body) = request.into_parts();
        let refused = if self.calls.has_too_many_fields(head.headers.len()) {
            Err(Status::resource_exhausted("too many header fields"))
        } else {
            self.admit(&head)
        };
        if let Err(status) = refused {
            return Box::pin(ready(Ok(failed(status))));
        }
        let front_end = Arc::clone(&self.front_end);
        // One future for each method, because some are ten times as large as others, and all are boxed.
        match GrpcMethod::of(head.uri.path()) {
            GrpcMethod::ShouldRateLimit => Box::pin(front_end.should_rate_limit(call, body)),
            GrpcMethod::HealthCheck => Box::pin(front_end.health_check(call, body)),
            GrpcMethod::HealthWatch => Box::pin(front_end.health_watch(Arc::clone(&self.calls), call, body)),
            GrpcMethod::Reflection => {
                let encoding = head.headers.remove(ENCODING);
                Box::pin(front_end.reflection(Arc::clone(&self.calls), encoding, body))
            }
            GrpcMethod::Unknown => Box::pin(ready(Ok(failed(Status::unimplemented("unknown method"))))),
        }
    }
}
