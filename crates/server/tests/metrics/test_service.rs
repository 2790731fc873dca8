//! A service with every listener on a free port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::Value;
use tollgate::ManualClock;
use tollgate::policy::parse;
use tollgate_server::{Drained, Engine, Listener, Listeners, Server};
use tollgate_testbed::InProcess;

use crate::client::{self, Connection, Response};
use crate::grpc_client::GrpcClient;
use crate::messages::{RateLimitRequest, RateLimitResponse};
use crate::resp_client::RespClient;
use crate::scrape::Scrape;

pub(crate) struct TestService {
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) resp: SocketAddr,
    grpc: GrpcClient,
    /// Joined on drop.
    service: Option<InProcess<Drained>>,
}

impl TestService {
    pub(crate) fn with_policy(policy: &str) -> TestService {
        let loaded = parse(policy, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
        let any = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let listeners = Listeners { http: any, grpc: any, resp: any, admin: any };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (addresses, service) = InProcess::start(runtime, async |stopped| {
            let clock = ManualClock::at(1_700_000_040_000_000_000);
            let engine = Engine::new(&loaded.policy, Arc::new(clock)).unwrap();
            let server = Server::bind(listeners, engine).await.unwrap();
            let address = |of| server.addresses().find(|(listener, _)| *listener == of).unwrap().1;
            let addresses = [Listener::Http, Listener::Grpc, Listener::Resp, Listener::Admin].map(address);
            (addresses, server.serve(stopped))
        });
        let [http, grpc, resp, admin] = addresses;
        let grpc = GrpcClient::open(grpc, service.runtime());
        TestService { http, admin, resp, grpc, service: Some(service) }
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Value {
        let response = client::request(self.http, "POST", path, body);
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    /// Sends a forward-auth request of a gateway for a client.
    pub(crate) fn forward_auth(&self, ip: &str, path: &str) -> Response {
        let mut connection = Connection::open(self.http);
        connection.send(&format!(
            "GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\nx-forwarded-for: {ip}\r\n\
             x-forwarded-method: GET\r\nx-forwarded-uri: {path}\r\n\r\n"
        ));
        connection.response()
    }

    /// Calls the gRPC front end as Envoy does.
    pub(crate) fn should_rate_limit(&self, request: &RateLimitRequest) -> RateLimitResponse {
        self.grpc.should_rate_limit(request).unwrap()
    }

    pub(crate) fn resp_client(&self) -> RespClient {
        RespClient::open(self.resp)
    }

    pub(crate) fn metrics_text(&self) -> String {
        client::request(self.admin, "GET", "/metrics", "").body
    }

    pub(crate) fn scrape(&self) -> Scrape {
        Scrape::parse(&self.metrics_text())
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        self.service.take().map(InProcess::join);
    }
}
