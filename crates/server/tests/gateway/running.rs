//! A service of a test's own, on any free port, and a client of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tollgate::ManualClock;
use tollgate::policy::parse;
use tollgate_server::{Drained, Engine, Listeners, Server};
use tonic::Code;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::messages::{Answer, Ask};

pub(crate) const S_NS: u64 = 1_000_000_000;

pub(crate) struct Running {
    pub(crate) grpc: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) channel: Channel,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Drained>>,
}

impl Running {
    pub(crate) fn under(policy: &str) -> Running {
        // A whole minute, so that windows of the clock begin here.
        let clock = ManualClock::at(1_700_000_040 * S_NS);
        let loaded = parse(policy, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
        let engine = Engine::new(&loaded.policy, Arc::new(clock.clone())).unwrap();
        let listeners = Listeners { grpc: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), ..Listeners::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let runtime = Arc::new(runtime);
        let server = runtime.block_on(Server::bind(listeners, engine)).unwrap();
        let grpc = server.addresses().next().unwrap().1;
        let (stop, stopped) = oneshot::channel();
        let serve = server.serve(async {
            let _ = stopped.await;
        });
        let serving = Arc::clone(&runtime);
        let thread = std::thread::spawn(move || serving.block_on(serve));
        let endpoint = Endpoint::from_shared(format!("http://{grpc}")).unwrap();
        let channel = runtime.block_on(endpoint.connect()).unwrap();
        Running { grpc, clock, runtime, channel, stop: Some(stop), thread: Some(thread) }
    }

    /// The answer to a question that is well formed.
    pub(crate) fn answer(&self, ask: &Ask) -> Answer {
        self.try_answer(ask).unwrap()
    }

    /// The answer, or the error and its message.
    pub(crate) fn try_answer(&self, ask: &Ask) -> Result<Answer, (Code, String)> {
        self.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", ask.clone())
    }

    pub(crate) fn call<Q, A>(&self, path: &'static str, question: Q) -> Result<A, (Code, String)>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut client = Grpc::new(self.channel.clone());
        let called = async {
            client.ready().await.unwrap();
            let codec = ProstCodec::<Q, A>::default();
            client.unary(tonic::Request::new(question), PathAndQuery::from_static(path), codec).await
        };
        let answered = self.runtime.block_on(called);
        answered.map(tonic::Response::into_inner).map_err(|status| (status.code(), status.message().to_owned()))
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn drained(mut self) -> Drained {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap()
    }
}
