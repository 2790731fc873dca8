//! A service with every listener on a free port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::Value;
use tollgate::ManualClock;
use tollgate::clock::Clock;
use tollgate::policy::{STARTER, parse};
use tollgate_server::{AdminAccess, ConnectionLimits, Drained, Engine, Listener, Listeners, Server};
use tollgate_testbed::InProcess;

use crate::client;

pub(crate) fn engine(policy: &str, clock: Arc<dyn Clock>) -> Engine {
    let loaded = parse(policy, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
    Engine::new(&loaded.policy, clock).unwrap()
}

pub(crate) struct TestService {
    pub(crate) http: SocketAddr,
    #[allow(dead_code, reason = "the RESP tests do not use it")]
    pub(crate) grpc: SocketAddr,
    pub(crate) resp: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) engine: Arc<Engine>,
    service: InProcess<Drained>,
}

impl TestService {
    /// Starts a service with the starter policy.
    pub(crate) fn start() -> TestService {
        TestService::with_policy(STARTER)
    }

    /// Starts a service with the text of a policy file.
    pub(crate) fn with_policy(policy: &str) -> TestService {
        TestService::with_server(policy, |server| server)
    }

    /// Starts a service with the starter policy and these connection limits.
    pub(crate) fn with_limits(limits: ConnectionLimits) -> TestService {
        TestService::with_server(STARTER, |server| server.with_limits(limits))
    }

    /// Starts a service with this access to the admin API.
    pub(crate) fn with_admin_access(policy: &str, admin: AdminAccess) -> TestService {
        TestService::with_admin(policy, admin, |server| server)
    }

    pub(crate) fn with_server(policy: &str, configure: impl FnOnce(Server) -> Server) -> TestService {
        TestService::with_admin(policy, AdminAccess::default(), configure)
    }

    fn with_admin(policy: &str, admin: AdminAccess, configure: impl FnOnce(Server) -> Server) -> TestService {
        let clock = ManualClock::at(1_700_000_000_000_000_000);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (bound, service) = InProcess::start(runtime, async |stopped| {
            let engine = engine(policy, Arc::new(clock.clone()));
            let server = configure(Server::bind_with(any_ports(), admin, engine).await.unwrap());
            ((server.engine(), listener_addresses(&server)), server.serve(stopped))
        });
        let (engine, [http, grpc, resp, admin]) = bound;
        TestService { http, grpc, resp, admin, clock, engine, service }
    }

    /// Returns the response to a valid check.
    pub(crate) fn check(&self, body: &str) -> Value {
        let response = client::request(self.http, "POST", "/v1/check", body);
        assert_eq!((response.status, response.field("content-type")), (200, Some("application/json")), "{response:?}");
        response.json()
    }

    /// Tells the service to stop, without waiting for it.
    pub(crate) fn stop(&mut self) {
        self.service.stop();
    }

    /// Stops the service, and waits until it has ended.
    pub(crate) fn shut_down(self) -> Drained {
        self.service.join().unwrap()
    }
}

/// Every listener on any free port.
pub(crate) fn any_ports() -> Listeners {
    let any_port = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    Listeners { http: any_port, grpc: any_port, resp: any_port, admin: any_port }
}

/// Returns the addresses of the listeners: http, grpc, resp and admin.
pub(crate) fn listener_addresses(server: &Server) -> [SocketAddr; 4] {
    let address = |of| server.addresses().find(|(listener, _)| *listener == of).unwrap().1;
    [Listener::Http, Listener::Grpc, Listener::Resp, Listener::Admin].map(address)
}
