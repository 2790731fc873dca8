//! A service of a test's own, on any free ports.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::sync::oneshot;
use tollgate::policy::{STARTER, parse};
use tollgate::{Clock, ManualClock};
use tollgate_server::{AdminAccess, ConnectionLimits, Drained, Engine, Listener, Listeners, Server};

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
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Drained>>,
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
        // A shared store begins to connect there.
        let engine = runtime.block_on(async { engine(policy, Arc::new(clock.clone())) });
        let any_port = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let listeners = Listeners { http: any_port, grpc: any_port, resp: any_port, admin: any_port };
        let server = runtime.block_on(Server::bind_with(listeners, admin, engine)).unwrap();
        let server = change(server);
        let engine = server.engine();
        let address = |of| server.addresses().find(|(listener, _)| *listener == of).unwrap().1;
        let (http, grpc) = (address(Listener::Http), address(Listener::Grpc));
        let (resp, admin) = (address(Listener::Resp), address(Listener::Admin));
        let (stop, stopped) = oneshot::channel();
        let serve = server.serve(async {
            let _ = stopped.await;
        });
        let thread = std::thread::spawn(move || runtime.block_on(serve));
        Running { http, resp, grpc, admin, clock, engine, stop: Some(stop), thread: Some(thread) }
    }

    /// The answer to a check that is well formed.
    pub(crate) fn check(&self, body: &str) -> Value {
        let response = client::request(self.http, "POST", "/v1/check", body);
        assert_eq!((response.status, response.field("content-type")), (200, Some("application/json")), "{response:?}");
        response.json()
    }

    /// Tells it to stop, and does not wait for it.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has stopped.
    pub(crate) fn drained(mut self) -> Drained {
        self.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}
