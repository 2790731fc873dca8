use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::{HelloReply, HelloRequest};

/// The greeter service, equivalent to code generated from `greeter.proto`.
#[derive(Clone, Debug)]
pub struct Greeter;

impl UnaryService<HelloRequest> for Greeter {
    type Response = HelloReply;
    type Future = Ready<Result<Response<HelloReply>, Status>>;

    fn call(&mut self, request: Request<HelloRequest>) -> Self::Future {
        ready(Ok(Response::new(HelloReply { message: format!("Hello, {}!", request.get_ref().name) })))
    }
}

impl NamedService for Greeter {
    const NAME: &'static str = "greeter.Greeter";
}

impl Service<http::Request<Body>> for Greeter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            if request.uri().path() != "/greeter.Greeter/SayHello" {
                return Ok(Status::unimplemented("the only method is SayHello").into_http());
            }
            Ok(Grpc::new(ProstCodec::default()).unary(Greeter, request).await)
        })
    }
}
