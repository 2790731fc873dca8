//! Which call is for whom.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use prost::Message;
use tokio::sync::watch;
use tonic::Status;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

use super::calls::{Call, Calls};
use super::health::{self, Watch};
use super::held_body::HeldBody;
use super::limits::{CONVERSATION_WITHIN, MAX_MESSAGE_BYTES};
use super::rate_limit::ShouldRateLimit;
use super::reflection::Reflection;
use super::unary::{GrpcBody, LIMITS, SMALL_LIMITS, failed, read_message, unary};
use crate::access::{AccessToken, bearer_token};
use crate::engine::Engine;
use crate::grpc::rate_limit::override_limits::OverrideLimits;
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

/// All services of the front end.
#[derive(Clone, Debug)]
pub(super) struct Services {
    rate_limit: ShouldRateLimit,
    token: Option<AccessToken>,
    /// Where the connection comes from.
    caller: IpAddr,
    stopped: watch::Receiver<bool>,
}

/// The same on one connection.
#[derive(Clone, Debug)]
pub(super) struct ConnectionServices {
    services: Arc<Services>,
    calls: Arc<Calls>,
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

impl Services {
    pub(super) fn new(
        engine: Arc<Engine>,
        overrides: Arc<OverrideLimits>,
        token: Option<AccessToken>,
        stopped: watch::Receiver<bool>,
    ) -> Services {
        let rate_limit = ShouldRateLimit { engine, overrides };
        Services { rate_limit, token, caller: IpAddr::V4(Ipv4Addr::UNSPECIFIED), stopped }
    }

    /// The same on a connection from this address.
    pub(super) fn for_caller(self, caller: IpAddr) -> Services {
        Services { caller, ..self }
    }

    /// Whether a call may be answered. Probes have no token, and learn nothing but that the service runs.
    fn admit(&self, head: &Parts) -> Result<(), Status> {
        let Some(token) = &self.token else { return Ok(()) };
        if matches!(Method::of(head.uri.path()), Method::HealthCheck | Method::HealthWatch) {
            return Ok(());
        }
        let (why, message) = match bearer_token(&head.headers) {
            Some(sent) if token.is(sent) => return Ok(()),
            Some(_) => (WhyRefused::WrongToken, "this is not the access token"),
            None => (WhyRefused::NoToken, "this needs the access token as metadata: `authorization: Bearer TOKEN`"),
        };
        let observer = self.rate_limit.engine.observer();
        observer.note_refused_call(Listener::Grpc.name(), why, head.method.as_str(), self.caller);
        Err(Status::unauthenticated(message))
    }

    pub(super) fn on(self, calls: Arc<Calls>) -> ConnectionServices {
        ConnectionServices { services: Arc::new(self), calls }
    }

    /// What gateways ask for every request.
    async fn should_rate_limit(self: Arc<Services>, call: Call, body: Incoming) -> Answered {
        Ok(unary(call, LIMITS, body, async |asked, out: &mut _| self.rate_limit.answer(&asked, out).await).await)
    }

    async fn health_check(self: Arc<Services>, call: Call, body: Incoming) -> Answered {
        let check = async |asked, out: &mut Vec<u8>| {
            health::check(*self.stopped.borrow(), &asked).map(|health| health.encode_raw(out))
        };
        Ok(unary(call, SMALL_LIMITS, body, check).await)
    }

    /// A watch stays open, but its message must come in time like any other.
    async fn health_watch(self: Arc<Services>, calls: Arc<Calls>, call: Call, body: Incoming) -> Answered {
        let message = match read_message(&call, SMALL_LIMITS, body).await {
            Ok(message) => message.into_bytes(),
            Err(status) => return Ok(failed(status)),
        };
        let Some(open) = calls.begin_watch() else { return too_many_open() };
        drop(call);
        let watch = Watch(self.stopped.clone());
        let answer = grpc().server_streaming(watch, Request::new(Full::new(message))).await;
        Ok(answer.map(|body| HeldBody::holding(body, open, None).into()))
    }

    async fn reflection(
        self: Arc<Services>,
        calls: Arc<Calls>,
        encoding: Option<HeaderValue>,
        body: Incoming,
    ) -> Answered {
        let Some(open) = calls.begin_conversation() else { return too_many_open() };
        let mut request = Request::new(body);
        request.headers_mut().extend(encoding.map(|encoding| (ENCODING, encoding)));
        let answer = grpc().streaming(Reflection(self.stopped.clone()), request).await;
        Ok(answer.map(|body| HeldBody::holding(body, open, Some(CONVERSATION_WITHIN)).into()))
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

impl hyper::service::Service<Request<Incoming>> for ConnectionServices {
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answered> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (services, calls) = (Arc::clone(&self.services), &self.calls);
        let call = calls.begin();
        // The fields are let go of before anything is waited for: they take many times what was sent of them.
        let (mut head, body) = request.into_parts();
        let refused = if calls.has_too_many_fields(head.headers.len()) {
            Err(Status::resource_exhausted("there are too many fields"))
        } else {
            services.admit(&head)
        };
        if let Err(status) = refused {
            return Box::pin(ready(Ok(failed(status))));
        }
        // One future for each, because some are ten times as large as others, and all are moved to the heap.
        match Method::of(head.uri.path()) {
            Method::ShouldRateLimit => Box::pin(services.should_rate_limit(call, body)),
            Method::HealthCheck => Box::pin(services.health_check(call, body)),
            Method::HealthWatch => Box::pin(services.health_watch(Arc::clone(calls), call, body)),
            Method::Reflection => {
                let encoding = head.headers.remove(ENCODING);
                Box::pin(services.reflection(Arc::clone(calls), encoding, body))
            }
            Method::Unknown => Box::pin(ready(Ok(failed(Status::unimplemented("there is no such method"))))),
        }
    }
}
