//! A service on a free port, and a client of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use prost::Message;
use tollgate::ManualClock;
use tollgate::policy::parse;
use tollgate_server::{Drained, Engine, Listeners, Server};
use tollgate_testbed::InProcess;
use tonic::Code;

use crate::grpc_client::GrpcClient;
use crate::messages::{RateLimitRequest, RateLimitResponse};

pub(crate) const S_NS: u64 = 1_000_000_000;

pub(crate) struct TestService {
    pub(crate) grpc: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) client: GrpcClient,
    service: InProcess<Drained>,
}

impl TestService {
    pub(crate) fn with_policy(policy: &str) -> TestService {
        TestService::with_server(policy, |server| server)
    }

    pub(crate) fn with_server(policy: &str, configure: impl FnOnce(Server) -> Server) -> TestService {
        // A whole minute, so that windows aligned to the clock begin here.
        let clock = ManualClock::at(1_700_000_040 * S_NS);
        let loaded = parse(policy, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
        let listeners = Listeners { grpc: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), ..Listeners::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (grpc, service) = InProcess::start(runtime, async |stopped| {
            let engine = Engine::new(&loaded.policy, Arc::new(clock.clone())).unwrap();
            let server = configure(Server::bind(listeners, engine).await.unwrap());
            let address = server.addresses().next().unwrap().1;
            (address, server.serve(stopped))
        });
        let client = GrpcClient::open(grpc, service.runtime());
        TestService { grpc, clock, client, service }
    }

    /// Returns the response to a valid request.
    pub(crate) fn rate_limit(&self, request: &RateLimitRequest) -> RateLimitResponse {
        self.try_rate_limit(request).unwrap()
    }

    /// Returns the response, or the status code and the message of the error.
    pub(crate) fn try_rate_limit(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, (Code, String)> {
        self.client.should_rate_limit(request)
    }

    pub(crate) fn call<Req, Res>(&self, path: &'static str, message: Req) -> Result<Res, (Code, String)>
    where
        Req: Message + Send + Sync + 'static,
        Res: Message + Default + Send + Sync + 'static,
    {
        self.client.call(path, message)
    }

    /// Stops the service, and waits until it has ended.
    pub(crate) fn shut_down(self) -> Drained {
        self.service.join().unwrap()
    }
}
