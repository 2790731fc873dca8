use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::grpc_dialect::{Answer, Ask, one_answer};

/// Plain tonic: decodes the message, and returns a constant response.
pub(super) async fn serve(listener: TcpListener) {
    let incoming = TcpListenerStream::new(listener);
    tonic::transport::Server::builder().tcp_nodelay(true).serve_with_incoming(Floor, incoming).await.unwrap();
}

#[derive(Clone)]
struct Floor;

impl NamedService for Floor {
    const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";
}

impl Service<http::Request<Body>> for Floor {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Answer, Ask>::default());
            Ok(grpc.unary(ShouldRateLimit, request).await)
        })
    }
}

struct ShouldRateLimit;

impl UnaryService<Ask> for ShouldRateLimit {
    type Response = Answer;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Status>> + Send>>;

    fn call(&mut self, request: Request<Ask>) -> Self::Future {
        Box::pin(async move {
            assert!(!request.into_inner().descriptors.is_empty());
            Ok(Response::new(one_answer()))
        })
    }
}
