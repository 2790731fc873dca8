//! A service of a test's own, on any free ports.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::Value;
use tollgate::policy::{STARTER, parse};
use tollgate::{Clock, ManualClock};
use tollgate_server::{AdminAccess, ConnectionLimits, Drained, Engine, Listener, Listeners, Server};
use tollgate_testbed::InProcess;

use crate::client;

pub(crate) fn engine(policy: &str, clock: Arc<dyn Clock>) -> Engine {
    let loaded = parse(policy, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
    Engine::new(&loaded.policy, clock).unwrap()
}

pub(crate) struct Running {
    pub(crate) http: SocketAddr,
    #[allow(dead_code, reason = "those who speak RESP do not ask there")]
    pub(crate) grpc: SocketAddr,
    pub(crate) resp: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) engine: Arc<Engine>,
    service: InProcess<Drained>,
}

impl Running {
    /// Under the starter policy.
    pub(crate) fn start() -> Running {
        Running::under(STARTER)
    }

    /// Under a policy as it would stand in a file.
    pub(crate) fn under(policy: &str) -> Running {
        Running::with(policy, |server| server)
    }

    /// Under the starter policy, granting other connections than by default.
    pub(crate) fn granting(limits: ConnectionLimits) -> Running {
        Running::with(STARTER, |server| server.with_limits(limits))
    }

    /// With an admin listener for whoever brings something.
    pub(crate) fn open_to(policy: &str, admin: AdminAccess) -> Running {
        Running::with_admin(policy, admin, |server| server)
    }

    pub(crate) fn with(policy: &str, change: impl FnOnce(Server) -> Server) -> Running {
        Running::with_admin(policy, AdminAccess::default(), change)
    }

    fn with_admin(policy: &str, admin: AdminAccess, change: impl FnOnce(Server) -> Server) -> Running {
        let clock = ManualClock::at(1_700_000_000_000_000_000);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (bound, service) = InProcess::start(runtime, async |stopped| {
            let engine = engine(policy, Arc::new(clock.clone()));
            let server = change(Server::bind_with(any_ports(), admin, engine).await.unwrap());
            ((server.engine(), listening(&server)), server.serve(stopped))
        });
        let (engine, [http, grpc, resp, admin]) = bound;
        Running { http, grpc, resp, admin, clock, engine, service }
    }

    /// The answer to a check that is well formed.
    pub(crate) fn check(&self, body: &str) -> Value {
        let response = client::request(self.http, "POST", "/v1/check", body);
        assert_eq!((response.status, response.field("content-type")), (200, Some("application/json")), "{response:?}");
        response.json()
    }

    /// Tells it to stop, and does not wait for it.
    pub(crate) fn stop(&mut self) {
        self.service.stop();
    }

    /// Waits until it has stopped.
    pub(crate) fn drained(self) -> Drained {
        self.service.join().unwrap()
    }
}

/// Every listener on any free port.
pub(crate) fn any_ports() -> Listeners {
    let any_port = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    Listeners { http: any_port, grpc: any_port, resp: any_port, admin: any_port }
}

/// Where the listeners of a server are: http, grpc, resp and admin.
pub(crate) fn listening(server: &Server) -> [SocketAddr; 4] {
    let address = |of| server.addresses().find(|(listener, _)| *listener == of).unwrap().1;
    [Listener::Http, Listener::Grpc, Listener::Resp, Listener::Admin].map(address)
}
