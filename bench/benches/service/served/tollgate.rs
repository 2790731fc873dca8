use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tollgate::policy::PolicyBuilder;
use tollgate::policy::model::{MemorySettings, StoreSettings, WhenFullSetting};
use tollgate::{RealClock, rule};
use tollgate_server::observe::{EventFormat, EventLog, Observer, ObserverSettings};
use tollgate_server::{Engine, Listener, Listeners, Server};

use super::print_listeners;

/// Runs the service with one rule, by address, which refuses nothing. Its store has this number of entries.
pub(super) async fn serve(entries: Option<&str>) {
    let mut policy = PolicyBuilder::default().rule(rule("per-ip").per("client_ip").limit("1000000/s"));
    if let Some(entries) = entries {
        let memory =
            MemorySettings { entries: entries.parse().unwrap(), when_full: WhenFullSetting::Evict, snapshot: None };
        policy = policy.with(|policy| policy.store = StoreSettings::Memory(memory));
    }
    listen(Engine::new(&policy.build().unwrap(), Arc::new(RealClock::new())).unwrap()).await;
}

/// Runs the observed service with three rules and an admin listener.
pub(super) async fn serve_with_admin() {
    let any_port = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    listen_on(Listeners { http: any_port, admin: any_port, ..Listeners::default() }, three_rules()).await;
}

/// Runs the service with three rules, of which one refuses every login but the first; with log, observer and metrics,
/// or without them.
pub(super) async fn serve_three_rules(is_seen: bool) {
    let engine = three_rules();
    listen(if is_seen { engine } else { engine.unobserved() }).await;
}

fn three_rules() -> Engine {
    let policy = PolicyBuilder::default()
        .rule(rule("login").per("client_ip").path("/login").limit("1/day"))
        .rule(rule("per-ip").per("client_ip").limit("1000000/s"))
        .rule(rule("all").limit("100000000/s"));
    let clock = Arc::new(RealClock::new());
    let log = EventLog::start(EventFormat::Json, std::io::sink()).unwrap();
    let settings = ObserverSettings { log: Some(log), ..ObserverSettings::default() };
    let observer = Arc::new(Observer::new(settings, clock.clone()).unwrap());
    Engine::with_observer(&policy.build().unwrap(), clock, observer, |_| {}).unwrap()
}

async fn listen(engine: Engine) {
    let any_port = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    listen_on(Listeners { http: any_port, grpc: any_port, resp: any_port, ..Listeners::default() }, engine).await;
}

async fn listen_on(listeners: Listeners, engine: Engine) {
    let server = Server::bind(listeners, engine).await.unwrap();
    let listening: Vec<(Listener, SocketAddr)> = server.addresses().collect();
    print_listeners(listening.iter().map(|(listener, address)| (listener.name(), *address)));
    server.serve(pending()).await;
}
