//! The limiters and their requests: the same keys under governor and under policies of one and three rules.

use std::future::Future;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use governor::clock::DefaultClock;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use tollgate::{Limiter, RealClock, Request};
use tollgate_server::{Engine, FrontEnd};

pub(crate) const KEYS: usize = 1_000;

/// A token refills in 864 s, so that no bucket is full again at the next request.
const RATE: &str = "100/day burst 1000000";

/// One rule by header.
pub(crate) const BY_HEADER: &str = "version: 1
identity: { user: { header: X-User, trusted: true } }
rules:
  - { name: per-user, key: user, limit: RATE }
";

/// One rule by address.
pub(crate) const BY_ADDRESS: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: RATE }
";

/// Three rules that all apply: by address, by header, and a login rule by path and method.
pub(crate) const THREE_RULES: &str = "version: 1
identity: { user: { header: X-User, trusted: true } }
rules:
  - { name: per-ip, key: client_ip, limit: RATE }
  - { name: per-user, key: user, limit: RATE }
  - { name: login, when: { method: POST, path: /auth/login }, key: client_ip, limit: RATE }
";

/// A limiter. `is_allowed` decides a request of one key.
pub(crate) trait Contestant: Send + Sync {
    fn is_allowed(&self, key: usize) -> bool;
}

pub(crate) struct Governor {
    limiter: RateLimiter<String, DashMapStateStore<String>, DefaultClock>,
    keys: Vec<String>,
}

impl Governor {
    pub(crate) fn new() -> Governor {
        let burst = NonZeroU32::new(1_000_000_000).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(Duration::from_secs(1_000)).map(|quota| quota.allow_burst(burst));
        let quota = quota.unwrap_or_else(|| unreachable!("a period is not 0"));
        Governor { limiter: RateLimiter::dashmap(quota), keys: user_names() }
    }
}

impl Contestant for Governor {
    fn is_allowed(&self, key: usize) -> bool {
        self.limiter.check_key(&self.keys[key]).is_ok()
    }
}

/// Requests of as many users and addresses. Their values are read at run time: with a constant path the compiler
/// would compute in advance what every request has to.
pub(crate) struct Workload {
    method: String,
    target: String,
    headers: Vec<[(&'static str, String); 1]>,
    addresses: Vec<IpAddr>,
}

impl Workload {
    pub(crate) fn new() -> Workload {
        Workload {
            method: black_box("POST").to_owned(),
            target: black_box("/auth/login").to_owned(),
            headers: user_names().into_iter().map(|user| [("x-user", user)]).collect(),
            addresses: (0..KEYS as u32).map(|key| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + 7 * key))).collect(),
        }
    }

    #[inline]
    pub(crate) fn request(&self, key: usize) -> Request<'_> {
        Request {
            method: &self.method,
            target: &self.target,
            headers: &self.headers[key],
            ..Request::from_peer(Some(self.addresses[key]))
        }
    }
}

pub(crate) struct Library {
    limiter: Limiter,
    workload: Workload,
}

impl Library {
    pub(crate) fn new(policy: &str) -> Library {
        let limiter = Limiter::from_yaml(&with_rate(policy)).unwrap_or_else(|error| panic!("{error}"));
        Library { limiter, workload: Workload::new() }
    }
}

impl Contestant for Library {
    fn is_allowed(&self, key: usize) -> bool {
        self.limiter.check(&self.workload.request(key)).is_allowed()
    }
}

/// The engine of the service, which counts and observes every decision.
pub(crate) struct Service {
    engine: Engine,
    workload: Workload,
}

impl Service {
    pub(crate) fn new(policy: &str) -> Service {
        let policy = tollgate::policy::parse(&with_rate(policy), "policy", None);
        let policy = policy.unwrap_or_else(|report| panic!("{report}")).policy;
        let engine = Engine::new(&policy, Arc::new(RealClock::new())).unwrap_or_else(|error| panic!("{error}"));
        Service { engine, workload: Workload::new() }
    }
}

impl Contestant for Service {
    fn is_allowed(&self, key: usize) -> bool {
        let request = self.workload.request(key);
        at_once(self.engine.check(FrontEnd::Http, &request)).is_allowed()
    }
}

pub(crate) fn with_rate(policy: &str) -> String {
    policy.replace("RATE", RATE)
}

pub(crate) fn user_names() -> Vec<String> {
    (0..KEYS).map(|key| format!("user-{key:08}")).collect()
}

/// Returns the result of a future that is ready at once.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the memory store is always ready"),
    }
}
