//! Clients and limits.

use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::policy::PolicyBuilder;
use tollgate::{ManualClock, Request, Verdict, rule};
use tollgate_server::observe::{EventFormat, EventLog, Observer, ObserverSettings};
use tollgate_server::{Engine, FrontEnd};

/// Simulates 200,000 decisions a second, however slow callgrind is, so that the work done once a second has its
/// usual weight.
const DECISION_NS: u64 = 5_000;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The limit of the rule that counts by address.
    limit: &'static str,
    /// The number of clients, which send in turn.
    clients: u32,
    /// Whether two more rules apply, which never refuse.
    three_rules: bool,
}

pub(crate) const SCENARIOS: [Scenario; 6] = [
    Scenario { name: "1 rule, 1,000 clients pass", limit: "1000000/s", clients: 1_000, three_rules: false },
    Scenario { name: "3 rules, 1,000 clients pass", limit: "1000000/s", clients: 1_000, three_rules: true },
    Scenario { name: "1 rule, 1 client is refused", limit: "1/day", clients: 1, three_rules: false },
    Scenario { name: "3 rules, 1 client is refused", limit: "1/day", clients: 1, three_rules: true },
    Scenario { name: "3 rules, 100 clients are refused", limit: "1/day", clients: 100, three_rules: true },
    Scenario { name: "3 rules, 100,000 clients are refused", limit: "1/day", clients: 100_000, three_rules: true },
];

/// An engine and its requests.
pub(crate) struct Workload {
    engine: Engine,
    clock: ManualClock,
    clients: u32,
    next: u32,
}

impl Scenario {
    /// Starts an engine, with or without metrics, observer and log.
    pub(crate) fn start(&self, is_seen: bool) -> Workload {
        let clock = ManualClock::at(1_700_000_000_000_000_000);
        let log = EventLog::start(EventFormat::Json, std::io::sink()).unwrap();
        let settings = ObserverSettings { log: Some(log), ..ObserverSettings::default() };
        let observer = Observer::new(settings, Arc::new(clock.clone())).unwrap();
        let mut policy = PolicyBuilder::default().rule(rule("per-ip").per("client_ip").limit(self.limit));
        if self.three_rules {
            policy = policy.rule(rule("per-method").per("method").limit("1000000000/s"));
            policy = policy.rule(rule("all").limit("1000000000/s"));
        }
        let engine =
            Engine::with_observer(&policy.build().unwrap(), Arc::new(clock.clone()), Arc::new(observer), |_| {})
                .unwrap();
        let engine = if is_seen { engine } else { engine.unobserved() };
        let mut workload = Workload { engine, clock, clients: self.clients, next: 0 };
        // Clients that are refused later have passed once.
        workload.decide(self.clients as usize);
        workload
    }
}

impl Workload {
    pub(crate) fn decide(&mut self, decisions: usize) {
        for _ in 0..decisions {
            self.clock.advance(Duration::from_nanos(DECISION_NS));
            self.next = if self.next + 1 >= self.clients { 0 } else { self.next + 1 };
            // In a scattered order, as real clients arrive, not in the order of their numbers.
            let address = self.next.wrapping_mul(2_654_435_761);
            std::hint::black_box(decide(&self.engine, address));
        }
    }
}

/// Decides one request of the client with this address. Returns whether it passes.
pub(crate) fn decide(engine: &Engine, address: u32) -> bool {
    at_once(engine.check(FrontEnd::Http, &request(address)))
}

fn request(address: u32) -> Request<'static> {
    let peer = Some(Ipv4Addr::from(address).into());
    Request { method: "POST", target: "/auth/login", ..Request::from_peer(peer) }
}

fn at_once(deciding: impl Future<Output = Verdict>) -> bool {
    match pin!(deciding).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => verdict.is_allowed(),
        Poll::Pending => unreachable!("the memory store is always ready"),
    }
}
