//! A blocking client of the gRPC front end.

use std::net::SocketAddr;
use std::sync::Arc;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::Code;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::messages::{RateLimitRequest, RateLimitResponse};

pub(crate) struct GrpcClient {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) channel: Channel,
}

impl GrpcClient {
    pub(crate) fn open(server: SocketAddr, runtime: &Arc<Runtime>) -> GrpcClient {
        let endpoint = Endpoint::from_shared(format!("http://{server}")).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        GrpcClient { runtime: Arc::clone(runtime), channel }
    }

    /// Calls `ShouldRateLimit` as Envoy does. An error is a status code and its message.
    pub(crate) fn should_rate_limit(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, (Code, String)> {
        self.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", request.clone())
    }

    pub(crate) fn call<Req, Res>(&self, path: &'static str, message: Req) -> Result<Res, (Code, String)>
    where
        Req: Message + Send + Sync + 'static,
        Res: Message + Default + Send + Sync + 'static,
    {
        self.call_with(path, tonic::Request::new(message))
    }

    /// Calls a method with metadata.
    pub(crate) fn call_with<Req, Res>(
        &self,
        path: &'static str,
        request: tonic::Request<Req>,
    ) -> Result<Res, (Code, String)>
    where
        Req: Message + Send + Sync + 'static,
        Res: Message + Default + Send + Sync + 'static,
    {
        self.send(path, request).map_err(|status| (status.code(), status.message().to_owned()))
    }

    fn send<Req, Res>(&self, path: &'static str, request: tonic::Request<Req>) -> Result<Res, tonic::Status>
    where
        Req: Message + Send + Sync + 'static,
        Res: Message + Default + Send + Sync + 'static,
    {
        let mut client = Grpc::new(self.channel.clone());
        let response = async {
            client.ready().await.unwrap();
            let codec = ProstCodec::<Req, Res>::default();
            client.unary(request, PathAndQuery::from_static(path), codec).await
        };
        self.runtime.block_on(response).map(tonic::Response::into_inner)
    }
}
