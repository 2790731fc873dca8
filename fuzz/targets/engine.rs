//! An engine for targets that need decisions. Its rules use address, header, path and concurrency.

use std::sync::{Arc, LazyLock};

use tollgate_server::Engine;
use tollgate_store::ManualClock;

const POLICY: &str = "version: 1
store: { memory: { entries: 1000 } }
identity:
  client_ip: { trusted_proxies: [127.0.0.0/8] }
  user: { header: X-User, trusted: true }
rules:
  - { name: per-ip, key: client_ip, limit: 5/min }
  - { name: per-user, key: user, limit: 3/min }
  - { name: under-a, when: { path: /a/* }, key: [client_ip, path], limit: 10/s }
  - { name: at-once, key: user, concurrency: 2 }
";

/// The engine of all inputs: each input changes its counters, as requests do.
pub(crate) static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| {
    let loaded = tollgate_policy::parse(POLICY, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000_000));
    Arc::new(Engine::new(&loaded.policy, clock).expect("an engine"))
});
