//! A service with all listeners, and a client for each.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::uri::PathAndQuery;
use tollgate::ManualClock;
use tollgate_server::observe::{EventFormat, IdentityFormat};
use tollgate_server::{Drained, Engine, Listener, Listeners, Server};
use tollgate_testbed::InProcess;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use crate::client::{Connection, Response, request};
use crate::messages::{RateLimitRequest, RateLimitResponse, descriptor, rate_limit_request};
use crate::observed_engine::{LogBuffer, ObservedEngine, log_of};
use crate::resp_client::{Reply, RespClient};

pub(crate) struct TestService {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: ManualClock,
    log_buffer: LogBuffer,
    http: SocketAddr,
    grpc: SocketAddr,
    resp: SocketAddr,
    /// Joined on drop.
    service: Option<InProcess<Drained>>,
}

impl TestService {
    pub(crate) fn with_policy(policy: &str, identities: IdentityFormat, format: EventFormat) -> TestService {
        let (engine, clock, log_buffer) = ObservedEngine::engine(policy, identities, format);
        let any_port = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let listeners = Listeners { http: any_port, grpc: any_port, resp: any_port, ..Listeners::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (bound, service) = InProcess::start(runtime, async |stopped| {
            let server = Server::bind(listeners, engine).await.unwrap();
            let address = |of| server.addresses().find(|(listener, _)| *listener == of).unwrap().1;
            let addresses = [Listener::Http, Listener::Grpc, Listener::Resp].map(address);
            ((server.engine(), addresses), server.serve(stopped))
        });
        let (engine, [http, grpc, resp]) = bound;
        TestService { engine, clock, log_buffer, http, grpc, resp, service: Some(service) }
    }

    pub(crate) fn log(&self) -> String {
        log_of(self.engine.observer(), &self.log_buffer)
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Response {
        request(self.http, "POST", path, body)
    }

    pub(crate) fn forward_auth(&self, fields: &[(&str, &str)]) -> Response {
        let mut connection = Connection::open(self.http);
        let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        connection.send(&format!("GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\n{fields}\r\n"));
        connection.response()
    }

    pub(crate) fn resp(&self, command: &str) -> Reply {
        RespClient::open(self.resp).call(command)
    }

    pub(crate) fn grpc(&self, entries: &[(&str, &str)]) -> RateLimitResponse {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        let message = rate_limit_request(&[descriptor(entries)]);
        self.service.as_ref().unwrap().runtime().block_on(async {
            let mut client = Grpc::new(endpoint.connect().await.unwrap());
            client.ready().await.unwrap();
            let path = PathAndQuery::from_static("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
            let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
            client.unary(tonic::Request::new(message), path, codec).await.unwrap().into_inner()
        })
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        self.service.take().map(InProcess::join);
    }
}
