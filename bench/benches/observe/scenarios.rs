//! Who asks, under which limits.

use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tollgate::{ManualClock, PolicyBuilder, Request, Verdict, rule};
use tollgate_server::observe::{Log, LogFormat, Observer, ObserverSettings};
use tollgate_server::{Engine, FrontEnd};

/// As if there were 200,000 a second, however slow the machine is at counting
/// instructions: what is written by the second must not weigh more than it does.
const DECISION_NS: u64 = 5_000;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Of the rule that counts by address.
    limit: &'static str,
    /// How many clients ask in turn.
    clients: u32,
    /// Whether two more rules are met, and never refuse.
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

/// An engine and who asks it.
pub(crate) struct Asked {
    engine: Engine,
    clock: ManualClock,
    clients: u32,
    next: u32,
}

impl Scenario {
    /// Decisions are counted, seen and told of; or nothing but made.
    pub(crate) fn start(&self, is_seen: bool) -> Asked {
        let clock = ManualClock::at(1_700_000_000_000_000_000);
        let log = Log::start(LogFormat::Json, std::io::sink()).unwrap();
        let settings = ObserverSettings { log: Some(log), ..ObserverSettings::default() };
        let observer = Observer::new(settings, Arc::new(clock.clone())).unwrap();
        let mut policy = PolicyBuilder::default().rule(rule("per-ip").per("client_ip").limit(self.limit));
        if self.three_rules {
            policy = policy.rule(rule("per-method").per("method").limit("1000000000/s"));
            policy = policy.rule(rule("all").limit("1000000000/s"));
        }
        let engine =
            Engine::observed(&policy.build().unwrap(), Arc::new(clock.clone()), Arc::new(observer), |_| {}).unwrap();
        let engine = if is_seen { engine } else { engine.unobserved() };
        let mut asked = Asked { engine, clock, clients: self.clients, next: 0 };
        // Whoever is refused later has passed once.
        asked.decide(self.clients as usize);
        asked
    }
}

impl Asked {
    pub(crate) fn decide(&mut self, decisions: usize) {
        for _ in 0..decisions {
            self.clock.advance(DECISION_NS);
            self.next = if self.next + 1 >= self.clients { 0 } else { self.next + 1 };
            // Spread over the table as hashes are, not in the order of the clients.
            let address = self.next.wrapping_mul(2_654_435_761);
            std::hint::black_box(decide(&self.engine, address));
        }
    }
}

/// One request of the client with this address. `true` if it passes.
pub(crate) fn decide(engine: &Engine, address: u32) -> bool {
    at_once(engine.decide(FrontEnd::Http, &request(address)))
}

fn request(address: u32) -> Request<'static> {
    let peer = Some(Ipv4Addr::from(address).into());
    Request { method: "POST", target: "/auth/login", ..Request::from_peer(peer) }
}

fn at_once(deciding: impl Future<Output = Verdict>) -> bool {
    match pin!(deciding).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => verdict.is_allowed(),
        Poll::Pending => unreachable!("a store in memory answers at once"),
    }
}
