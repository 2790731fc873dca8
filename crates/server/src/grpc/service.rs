//! Which call is for whom.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use prost::Message;
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

use super::health::{Check, Watch};
use super::limits::{CALL_WITHIN, MAX_MESSAGE_BYTES};
use super::override_limits::OverrideLimits;
use super::rate_limit::ShouldRateLimit;
use super::reflection::Reflection;
use super::unary::unary;
use crate::access::{AccessToken, bearer_token};
use crate::engine::Engine;
use crate::observe::WhyRefused;
use crate::server::Listener;

/// The services, by name.
pub(super) const SERVICES: [&str; 4] = [
    "envoy.service.ratelimit.v3.RateLimitService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// All services of the front end.
#[derive(Clone, Debug)]
pub(super) struct Services {
    engine: Arc<Engine>,
    overrides: Arc<OverrideLimits>,
    token: Option<AccessToken>,
    /// Where the connection comes from.
    caller: IpAddr,
    stopped: watch::Receiver<bool>,
}

impl Services {
    pub(super) fn new(
        engine: Arc<Engine>,
        overrides: Arc<OverrideLimits>,
        token: Option<AccessToken>,
        stopped: watch::Receiver<bool>,
    ) -> Services {
        Services { engine, overrides, token, caller: IpAddr::V4(Ipv4Addr::UNSPECIFIED), stopped }
    }

    /// The same on a connection from this address.
    pub(super) fn for_caller(self, caller: IpAddr) -> Services {
        Services { caller, ..self }
    }

    /// Whether a call may be answered. Probes have no token, and learn nothing but that the service runs.
    fn admit(&self, request: &Request<Incoming>) -> Result<(), Status> {
        let Some(token) = &self.token else { return Ok(()) };
        if request.uri().path().starts_with("/grpc.health.v1.Health/") {
            return Ok(());
        }
        let why = match bearer_token(request.headers()) {
            Some(sent) if token.is(sent) => return Ok(()),
            Some(_) => WhyRefused::WrongToken,
            None => WhyRefused::NoToken,
        };
        self.engine.observer().note_refused_call(Listener::Grpc.name(), why, request.method().as_str(), self.caller);
        Err(Status::unauthenticated("this needs the access token as metadata: `authorization: Bearer TOKEN`"))
    }

    /// What gateways ask for every request.
    async fn should_rate_limit(self, request: Request<Incoming>) -> Response<Body> {
        let service = ShouldRateLimit { engine: self.engine, overrides: self.overrides };
        unary(request, async |asked| service.answer(&asked).await).await
    }

    /// What is asked now and then.
    async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        match request.uri().path() {
            "/grpc.health.v1.Health/Check" => in_time(grpc().unary(Check(self.stopped), request)).await,
            "/grpc.health.v1.Health/Watch" => grpc().server_streaming(Watch(self.stopped), request).await,
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => {
                grpc().streaming(Reflection(self.stopped), request).await
            }
            _ => Status::unimplemented("there is no such method").into_http(),
        }
    }
}

/// An answer, unless the question does not arrive.
async fn in_time(answer: impl Future<Output = Response<Body>>) -> Response<Body> {
    match tokio::time::timeout(CALL_WITHIN, answer).await {
        Ok(answer) => answer,
        Err(_) => Status::deadline_exceeded("the message did not arrive in time").into_http(),
    }
}

fn grpc<Q, A>() -> Grpc<ProstCodec<A, Q>>
where
    Q: Message + Default + 'static,
    A: Message + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_MESSAGE_BYTES)
}

impl hyper::service::Service<Request<Incoming>> for Services {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if let Err(status) = self.admit(&request) {
            return Box::pin(std::future::ready(Ok(status.into_http())));
        }
        let services = self.clone();
        // Two futures, because the second is ten times as large, and both are moved to the heap.
        if request.uri().path() == SHOULD_RATE_LIMIT {
            Box::pin(async move { Ok(services.should_rate_limit(request).await) })
        } else {
            Box::pin(async move { Ok(services.answer(request).await) })
        }
    }
}
