//! A service of a test's own, on any free port, and a client of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use prost::Message;
use tollgate::ManualClock;
use tollgate::policy::parse;
use tollgate_server::{Drained, Engine, Listeners, Server};
use tollgate_testbed::InProcess;
use tonic::Code;

use crate::grpc_client::GrpcClient;
use crate::messages::{Answer, Ask};

pub(crate) const S_NS: u64 = 1_000_000_000;

pub(crate) struct Running {
    pub(crate) grpc: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) client: GrpcClient,
    service: InProcess<Drained>,
}

impl Running {
    pub(crate) fn under(policy: &str) -> Running {
        Running::with(policy, |server| server)
    }

    pub(crate) fn with(policy: &str, change: impl FnOnce(Server) -> Server) -> Running {
        // A whole minute, so that windows of the clock begin here.
        let clock = ManualClock::at(1_700_000_040 * S_NS);
        let loaded = parse(policy, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
        let listeners = Listeners { grpc: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), ..Listeners::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (grpc, service) = InProcess::start(runtime, async |stopped| {
            let engine = Engine::new(&loaded.policy, Arc::new(clock.clone())).unwrap();
            let server = change(Server::bind(listeners, engine).await.unwrap());
            let address = server.addresses().next().unwrap().1;
            (address, server.serve(stopped))
        });
        let client = GrpcClient::open(grpc, service.runtime());
        Running { grpc, clock, client, service }
    }

    /// The answer to a question that is well formed.
    pub(crate) fn answer(&self, ask: &Ask) -> Answer {
        self.try_answer(ask).unwrap()
    }

    /// The answer, or the error and its message.
    pub(crate) fn try_answer(&self, ask: &Ask) -> Result<Answer, (Code, String)> {
        self.client.should_rate_limit(ask)
    }

    pub(crate) fn call<Q, A>(&self, path: &'static str, question: Q) -> Result<A, (Code, String)>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.client.call(path, question)
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn drained(self) -> Drained {
        self.service.join().unwrap()
    }
}
