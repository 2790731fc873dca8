//! A client of the gRPC front end that waits for its answers.

use std::net::SocketAddr;
use std::sync::Arc;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::Code;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::messages::{Answer, Ask};

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

    /// Asks as Envoy does. The error has a message.
    pub(crate) fn should_rate_limit(&self, ask: &Ask) -> Result<Answer, (Code, String)> {
        self.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", ask.clone())
    }

    pub(crate) fn call<Q, A>(&self, path: &'static str, question: Q) -> Result<A, (Code, String)>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.call_with(path, tonic::Request::new(question))
    }

    /// Asks with metadata.
    pub(crate) fn call_with<Q, A>(&self, path: &'static str, request: tonic::Request<Q>) -> Result<A, (Code, String)>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.send(path, request).map_err(|status| (status.code(), status.message().to_owned()))
    }

    fn send<Q, A>(&self, path: &'static str, request: tonic::Request<Q>) -> Result<A, tonic::Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut client = Grpc::new(self.channel.clone());
        let called = async {
            client.ready().await.unwrap();
            let codec = ProstCodec::<Q, A>::default();
            client.unary(request, PathAndQuery::from_static(path), codec).await
        };
        self.runtime.block_on(called).map(tonic::Response::into_inner)
    }
}
