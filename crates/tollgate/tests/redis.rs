//! A policy over counters on a real Redis server.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate::fields::Field;
use tollgate::redis::RedisStore;
use tollgate::redis::StoreEvent;
use tollgate::store::{Charge, LimitOptions, Source, Store};
use tollgate::{Action, AsyncLimiter, LimiterError, Quota, Request, TokioTimer};
use tollgate_testbed::{RedisServer, Reply};

const RULES: &str = "
version: 1
identity:
  user: { header: X-User, trusted: true }
rules:
  - name: per-user
    key: user
    limit: 3/h
    algorithm: sliding-window-log
  - name: login
    when: { path: /login }
    key: user
    limit: 1/h
    algorithm: sliding-window-log
    on_limit: [ { first: 1, action: warn }, { then: reject }, { after: 2 in 1h, action: block 15min } ]
  - name: reports
    when: { path: /reports }
    key: user
    concurrency: 1
  - name: closed
    when: { path: /closed }
    key: user
    limit: 100/h
    on_failure: closed
  - name: one-bucket
    when: { path: /buckets }
    key: user
    limit: 9/h
  - name: other-bucket
    when: { path: /buckets }
    key: user
    limit: 8/h
  - name: open
    when: { path: /open }
    key: user
    limit: 1/h
    algorithm: fixed-window
    on_failure: open
";

fn policy(server: &RedisServer) -> String {
    let store = "store: { redis: { deadline: 2s, fallback_share: 2/3, nodes: [\"";
    format!("{RULES}{store}{}\"] }} }}\n", server.address())
}

/// Returns a limiter that has reached its server, and its store events.
async fn connect(policy: &str) -> (AsyncLimiter, Arc<Mutex<Vec<StoreEvent>>>) {
    let loaded = tollgate::policy::parse(policy, "policy", None).unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&events);
    let limiter = AsyncLimiter::connect(&loaded.policy, move |event| received.lock().unwrap().push(event)).unwrap();
    until("the server is reached", || limiter.store_as::<RedisStore>().unwrap().is_ready()).await;
    (limiter, events)
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..5_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("not within ten seconds: {what}");
}

fn request<'a>(path: &'a str, user: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request { method: "GET", target: path, identities: user, ..Request::from_peer(None) }
}

#[tokio::test]
async fn two_instances_count_together() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, _) = connect(&policy(&server)).await;
    let (other, _) = connect(&policy(&server)).await;
    let alice = [("user", "alice")];
    for (limiter, remaining) in [(&one, 2), (&other, 1), (&one, 0)] {
        let verdict = limiter.check(&request("/", &alice)).await;
        assert_eq!((verdict.is_allowed(), verdict.source()), (true, Source::Exact));
        assert_eq!(verdict.deciding().unwrap().decision.remaining, remaining);
    }
    let refused = other.check(&request("/", &alice)).await;
    assert_eq!((refused.status(), refused.rule(), refused.source()), (429, Some("per-user"), Source::Exact));
    assert!(refused.retry_after().unwrap() > Duration::from_secs(3500));
    // The refusal is known by now.
    let known = other.check(&request("/", &alice)).await;
    assert_eq!((known.status(), known.rule(), known.source()), (429, Some("per-user"), Source::Cached));
    assert!(known.retry_after().unwrap() <= refused.retry_after().unwrap());
    assert!(one.check(&request("/", &[("user", "bob")])).await.is_allowed());
}

#[tokio::test]
async fn shadow_rule_with_several_limits_counts_as_if_it_were_enforced() {
    let server = RedisServer::start(&[]).unwrap();
    let policy = format!(
        "version: 1\nidentity: {{ user: {{ given: true }} }}\nrules:\n\
         \x20 - {{ name: one, key: user, limit: [1/h, 9/day], shadow: true }}\n\
         \x20 - {{ name: other, key: user, limit: [5/h, 8/day], shadow: true, algorithm: sliding-window-log }}\n\
         store: {{ redis: {{ deadline: 2s, nodes: [\"{}\"] }} }}\n",
        server.address()
    );
    let (limiter, _) = connect(&policy).await;
    let alice = [("user", "alice")];
    let mut remaining = Vec::new();
    for _ in 0..3 {
        let verdict = limiter.check(&request("/", &alice)).await;
        assert!(verdict.is_allowed());
        remaining.push(verdict.states().iter().map(|state| state.decision.remaining).collect::<Vec<_>>());
    }
    assert_eq!(remaining, [[0, 8, 4, 7], [0, 8, 3, 6], [0, 8, 2, 5]]);
}

/// Amounts that no double holds exactly are among them.
#[tokio::test]
async fn cost_above_the_largest_limit_never_passes_under_any_algorithm() {
    let server = RedisServer::start(&[]).unwrap();
    for algorithm in ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window-counter"] {
        let policy = format!(
            "version: 1\nrules:\n  - {{ name: all, limit: 1000000000000/h, algorithm: {algorithm} }}\n\
             store: {{ redis: {{ deadline: 2s, prefix: {algorithm}, nodes: [\"{}\"] }} }}\n",
            server.address()
        );
        let (limiter, _) = connect(&policy).await;
        let ask = |cost| Request { cost, ..request("/", &[]) };
        for cost in [1_000_000_000_001, (1 << 53) + 1, u64::MAX] {
            let never = limiter.check(&ask(cost)).await;
            let told = (never.status(), never.retry_after(), never.is_impossible());
            assert_eq!(told, (429, None, true), "{cost} under {algorithm}");
        }
        assert_eq!(limiter.check(&ask(1_000_000_000_000)).await.status(), 200, "{algorithm}");
    }
}

#[tokio::test]
async fn repeated_violations_are_warned_rejected_and_blocked_across_instances() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, _) = connect(&policy(&server)).await;
    let (other, _) = connect(&policy(&server)).await;
    let alice = [("user", "alice")];
    let mut actions = Vec::new();
    for limiter in [&one, &other, &one, &other, &one] {
        actions.push(limiter.check(&request("/login", &alice)).await.action());
    }
    assert_eq!(actions, [Action::Allow, Action::Warn, Action::Reject, Action::Block, Action::Block]);
}

/// For three spans of a second and more, without a pause.
#[tokio::test]
async fn violations_get_the_first_warnings_across_instances() {
    let server = RedisServer::start(&[]).unwrap();
    let rule =
        "{ name: warns, key: client_ip, limit: 1/h, on_limit: [ { first: 2, action: warn }, { then: reject } ] }";
    let store = format!("store: {{ redis: {{ deadline: 2s, nodes: [\"{}\"] }} }}", server.address());
    let mut loaded =
        tollgate::policy::parse(&format!("version: 1\nrules: [ {rule} ]\n{store}\n"), "policy", None).unwrap();
    let mut changed = tollgate::policy::Policy::clone(&loaded.policy);
    changed.rules[0].on_limit.as_mut().unwrap().span_ns = 1_000_000_000;
    loaded.policy = changed.check().unwrap();
    let limiters = [0, 1].map(|_| AsyncLimiter::connect(&loaded.policy, |_| {}).unwrap());
    until("the server is reached", || {
        limiters.iter().all(|limiter| limiter.store_as::<RedisStore>().unwrap().is_ready())
    })
    .await;
    let request = Request::from_peer(Some("203.0.113.9".parse().unwrap()));
    let (begun, mut last) = (Instant::now(), Instant::now());
    let (mut warned, mut longest_pause) = (0, Duration::ZERO);
    while begun.elapsed() < Duration::from_millis(3_500) {
        for limiter in &limiters {
            warned += usize::from(limiter.check(&request).await.action() == Action::Warn);
            longest_pause = longest_pause.max(last.elapsed());
            last = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // On a machine that stood still for a span the key has paused, and is warned again.
    assert!(warned == 2 || longest_pause > Duration::from_millis(900), "{warned} were warned");
    limiters[0].reset_key("warns", "203.0.113.9").await.unwrap();
    let mut again = 0;
    for _ in 0..5 {
        again += usize::from(limiters[0].check(&request).await.action() == Action::Warn);
    }
    assert_eq!(again, 2, "the key is as if untouched");
}

/// An instance without the shared store grants a share of the limit, and every reported limit is that share.
#[tokio::test]
async fn fallback_share_is_the_reported_limit() {
    let server = RedisServer::start(&[]).unwrap();
    let (limiter, _) = connect(&policy(&server)).await;
    let alice = [("user", "alice")];
    let told = async || {
        let mut fields = Vec::new();
        let verdict = limiter.check(&request("/", &alice)).await;
        verdict.fields(|field, value| {
            if matches!(field, Field::RateLimitPolicy | Field::XRateLimitLimit) {
                fields.push(value.to_owned());
            }
        });
        (verdict.source(), fields)
    };
    let before = ["\"per-user\";q=3;w=3600".to_owned(), "3".to_owned()];
    assert_eq!(told().await, (Source::Exact, before.to_vec()));
    drop(server);
    let alone = ["\"per-user\";q=2;w=3600".to_owned(), "2".to_owned()];
    assert_eq!(told().await, (Source::Fallback, alone.to_vec()));
}

/// When it begins, when the servers say so, and when an instance remembers it.
#[tokio::test]
async fn blocked_key_reports_the_block_in_every_number() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, _) = connect(&policy(&server)).await;
    let (other, _) = connect(&policy(&server)).await;
    let alice = [("user", "alice")];
    // The other rule is used up too: a refusal is remembered only if all keys of the request are known.
    for path in ["/", "/login", "/login", "/login"] {
        one.check(&request(path, &alice)).await;
    }
    let mut sources = Vec::new();
    for limiter in [&one, &other, &other] {
        let verdict = limiter.check(&request("/login", &alice)).await;
        let decision = verdict.deciding().unwrap().decision;
        assert_eq!((verdict.action(), verdict.rule()), (Action::Block, Some("login")));
        assert_eq!((decision.limit, decision.remaining), (1, 0));
        assert_eq!(verdict.retry_after(), decision.retry_after().map(Duration::from_nanos));
        // The limit refuses for longer than the block.
        assert!(verdict.retry_after().unwrap() > Duration::from_secs(3500));
        assert_eq!(verdict.states().len(), 2);
        assert!(Some(decision.reset_after) >= decision.retry_after());
        sources.push(verdict.source());
    }
    assert_eq!(sources, [Source::Exact, Source::Exact, Source::Cached]);
}

#[tokio::test]
async fn permit_is_held_and_released_for_all_instances() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, _) = connect(&policy(&server)).await;
    let (other, _) = connect(&policy(&server)).await;
    let alice = [("user", "alice")];
    let permit = one.permit(&request("/reports", &alice)).await.unwrap();
    let refused = other.permit(&request("/reports", &alice)).await.unwrap_err();
    assert_eq!(refused.rule(), Some("reports"));
    // Another instance finds the released permit by polling.
    let ann = request("/reports", &alice);
    let waiting = other.acquire(&ann, Duration::from_secs(30), TokioTimer);
    let release = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(permit);
    };
    let (acquired, ()) = tokio::join!(waiting, release);
    assert!(acquired.is_ok());
}

#[tokio::test]
async fn rules_apply_on_failure_without_the_server_and_recover() {
    let mut server = RedisServer::start(&[]).unwrap();
    let policy = policy(&server).replace("deadline: 2s", "deadline: 200ms");
    let (limiter, events) = connect(&policy).await;
    server.kill().unwrap();
    let alice = [("user", "alice")];
    let bob = [("user", "bob")];
    let closed = limiter.check(&request("/closed", &alice)).await;
    assert_eq!((closed.status(), closed.source()), (503, Source::Fallback));
    // Two thirds of 3 an hour.
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(limiter.check(&request("/", &bob)).await.status());
    }
    assert_eq!(statuses, [200, 200, 503], "a refusal for want of the store is never a 429");
    for _ in 0..2 {
        let open = limiter.check(&request("/open", &[("user", "carol")])).await;
        assert_eq!((open.status(), open.source()), (200, Source::Fallback));
    }
    for _ in 0..30 {
        limiter.check(&request("/closed", &alice)).await;
    }
    until("the breaker opens", || {
        events.lock().unwrap().iter().any(|event| matches!(event, StoreEvent::BreakerOpened { .. }))
    })
    .await;
    server.restart().unwrap();
    // A server that answers probes is tried with some of the requests.
    let is_back = || events.lock().unwrap().iter().any(|event| matches!(event, StoreEvent::BreakerClosed { .. }));
    for _ in 0..5_000 {
        if is_back() {
            break;
        }
        limiter.check(&request("/closed", &alice)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(is_back(), "not within ten seconds");
    // What passed meanwhile is charged with the first exact check: two of three are used.
    let first = limiter.check(&request("/", &bob)).await;
    assert_eq!((first.status(), first.source()), (200, Source::Exact));
    assert_eq!(first.deciding().unwrap().decision.remaining, 0);
    assert_eq!(limiter.check(&request("/", &bob)).await.status(), 429);
}

#[tokio::test]
async fn missing_password_is_reported_without_its_value() {
    let text =
        format!("{RULES}store: {{ redis: {{ nodes: [\"127.0.0.1:1\"], password_env: TOLLGATE_TEST_NO_SUCH }} }}\n");
    let loaded = tollgate::policy::parse(&text, "policy", None).unwrap();
    let error = AsyncLimiter::connect(&loaded.policy, |_| {}).unwrap_err();
    assert!(matches!(error, LimiterError::Connect(_)));
    assert!(error.to_string().contains("TOLLGATE_TEST_NO_SUCH"), "{error}");
}

/// The ACL rule of the documentation.
fn documented_access() -> Vec<String> {
    let page = include_str!("../../../docs/redis.md");
    let line = page.lines().find(|line| line.trim().starts_with("ACL SETUSER")).unwrap();
    line.split_whitespace().map(|word| word.replace(">SECRET", ">correct-horse")).collect()
}

#[tokio::test]
async fn documented_acl_suffices_and_password_comes_from_a_file() {
    let server = RedisServer::start(&[]).unwrap();
    let access = documented_access();
    server.command(&access.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let directory = tollgate_testbed::TemporaryDirectory::new("password").unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "correct-horse\n").unwrap();
    let store = format!("username: tollgate, password_file: \"{}\"", file.display());
    let (limiter, _) = connect(&policy(&server).replace("deadline: 2s", &format!("deadline: 2s, {store}"))).await;
    let alice = [("user", "alice")];
    let verdict = limiter.check(&request("/login", &alice)).await;
    assert_eq!((verdict.is_allowed(), verdict.source()), (true, Source::Exact));
    assert_eq!(limiter.check(&request("/login", &alice)).await.action(), Action::Warn);
    // Several buckets in one slot are read in one call, and changes by operators are published.
    let buckets = limiter.check(&request("/buckets", &alice)).await;
    assert_eq!((buckets.is_allowed(), buckets.source()), (true, Source::Exact));
    limiter.reset_key("per-user", "alice").await.unwrap();
    limiter.override_key("per-user", "alice", "7/h", Duration::from_secs(60)).await.unwrap();
    let denied = server.command(&["ACL", "LOG"]).unwrap();
    assert_eq!(denied, Reply::Array(Vec::new()), "something was not allowed");
    let shown = format!("{limiter:?} {:?} {verdict:?}", limiter.store_as::<RedisStore>().unwrap());
    assert!(!shown.contains("correct-horse"), "{shown}");
}

/// The permissions that regions need in addition, and the ACL rule of the global server.
fn documented_region_access() -> (Vec<String>, Vec<String>) {
    let page = include_str!("../../../docs/redis.md");
    let sentence =
        page.lines().find(|line| line.starts_with("With [regions](regions.md), the user also needs")).unwrap();
    let more = sentence.split('`').nth(1).unwrap().split(' ').map(str::to_owned);
    let global = page.lines().find(|line| line.trim().starts_with("ACL SETUSER tollgate-regions ")).unwrap();
    let global = global.split_whitespace().map(|word| word.replace(">SECRET", ">correct-horse"));
    (documented_access().into_iter().chain(more).collect(), global.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_acl_suffices_for_regions() {
    let (server, global) = (RedisServer::start(&[]).unwrap(), RedisServer::start(&[]).unwrap());
    let (of_region, of_global) = documented_region_access();
    for (server, access) in [(&server, of_region), (&global, of_global)] {
        let done = server.command(&access.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        assert_eq!(done.text(), Some("OK"), "{access:?}");
    }
    let directory = tollgate_testbed::TemporaryDirectory::new("password-of-regions").unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "correct-horse\n").unwrap();
    let file = file.display();
    let policy = |region: &str, store: &str| {
        format!(
            "version: 1
identity: {{ user: {{ header: X-User, trusted: true }} }}
rules: [{{ name: per-user, key: user, limit: 600/min, consistency: regional }}]
regions:
  self: {region}
  weights: {{ eu: 50, us: 50 }}
  sync: 1s
  global: {{ nodes: [\"{}\"], username: tollgate-regions, password_file: \"{file}\" }}
store: {store}
",
            global.address()
        )
    };
    let on_server = format!(
        "{{ redis: {{ nodes: [\"{}\"], username: tollgate, password_file: \"{file}\", deadline: 2s }} }}",
        server.address()
    );
    let open = |text: &str| {
        let loaded = tollgate::policy::parse(text, "policy", None).unwrap();
        AsyncLimiter::connect(&loaded.policy, |_| {}).unwrap()
    };
    // A region with a server of its own, and one in memory, whose rate the first one borrows.
    let (eu, _us) = (open(&policy("eu", &on_server)), open(&policy("us", "memory")));
    let status = || eu.store_as::<RedisStore>().unwrap().region_status().unwrap();
    let alice = Request { identities: &[("user", "alice")], ..Request::from_peer(None) };
    let begun = Instant::now();
    while status().borrowing_keys == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", (status(), global.command(&["ACL", "LOG"])));
        eu.check(&alice).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    eu.reset_key("per-user", "alice").await.unwrap();
    eu.override_key("per-user", "alice", "7/h", Duration::from_secs(60)).await.unwrap();
    // A global server that has lost its data gets back what the regions had agreed on.
    global.command(&["FLUSHALL"]).unwrap();
    let is_restored = || global.command(&["HEXISTS", "tollgate:\\.regions", "agreed"]).unwrap() == Reply::Integer(1);
    until("the weights are restored", is_restored).await;
    for server in [&server, &global] {
        assert_eq!(server.command(&["ACL", "LOG"]).unwrap(), Reply::Array(Vec::new()), "something was not allowed");
    }
}

/// The version before named the first limit of a list by its period, too.
#[tokio::test]
async fn list_of_limits_shares_counters_with_the_previous_version() {
    let server = RedisServer::start(&[]).unwrap();
    let list = "
version: 1
identity:
  user: { header: X-User, trusted: true }
rules:
  - { name: api, key: user, limit: [10/h, 100/day] }
";
    let store = format!("store: {{ redis: {{ deadline: 2s, nodes: [\"{}\"] }} }}\n", server.address());
    let (limiter, _) = connect(&format!("{list}{store}")).await;
    let before = ["api/1h", "api/1day"].map(|scope| {
        let rate = if scope == "api/1h" { "10/h" } else { "100/day" };
        let quota = Quota::token_bucket(rate.parse().unwrap()).unwrap();
        limiter.store_as::<RedisStore>().unwrap().limit(scope, quota, LimitOptions::default()).unwrap()
    });
    let ask_before = async || {
        let charge = |limit| Charge::new(limit, b"alice", 1);
        let outcome =
            limiter.store_as::<RedisStore>().unwrap().check_all(&[charge(&before[0]), charge(&before[1])]).await;
        (outcome.passed, outcome.decisions[0].remaining)
    };
    let request = Request { identities: &[("user", "alice")], ..Request::from_peer(None) };
    let ask_now = async || {
        let verdict = limiter.check(&request).await;
        (verdict.is_allowed(), verdict.states()[0].decision.remaining)
    };
    for remaining in (0..10).rev() {
        let asked = if remaining % 3 == 0 { ask_now().await } else { ask_before().await };
        assert_eq!(asked, (true, remaining));
    }
    assert_eq!(ask_now().await, (false, 0), "the limit is spent for both");
    assert_eq!(ask_before().await, (false, 0), "the limit is spent for both");
    assert_eq!(limiter.check(&request).await.states().len(), 2, "one state for each limit of the list");
    limiter.reset_key("api", "alice").await.unwrap();
    assert_eq!(ask_now().await, (true, 9));
}

/// Rules that share a budget are decided on Redis as in memory, and operators reach the same counter.
#[tokio::test]
async fn budget_decides_equally_on_redis_and_in_memory() {
    const BUDGETS: &str = "
version: 1
identity: { user: { header: X-User, trusted: true } }
budgets:
  tokens: { key: user, limit: [20/h, 50/day], algorithm: sliding-window-log }
rules:
  - { name: other, budget: tokens }
  - { name: search, when: { path: /search }, budget: tokens, cost: 2 }
  - { name: chat, when: { path: /chat/* }, budget: tokens, cost: 5 }
  - { name: apart, key: path, limit: 12/h, algorithm: sliding-window-log }
";
    let server = RedisServer::start(&[]).unwrap();
    let store = format!("store: {{ redis: {{ deadline: 2s, nodes: [\"{}\"] }} }}\n", server.address());
    let (shared, _) = connect(&format!("{BUDGETS}{store}")).await;
    let own = tollgate::Limiter::from_yaml(BUDGETS).unwrap();
    let users = [[("user", "alice")], [("user", "bob")]];
    let mut number = 7_u64;
    for step in 0..60 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let target = ["/", "/search", "/chat/a", "/chat/b"][(number >> 33) as usize % 4];
        let request = request(target, &users[(number >> 40) as usize % 2]);
        let (one, other) = (shared.check(&request).await, own.check(&request));
        let told = |verdict: &tollgate::Verdict| {
            let remaining: Vec<u64> = verdict.states().iter().map(|state| state.decision.remaining).collect();
            (verdict.is_allowed(), verdict.rule().map(str::to_owned), remaining)
        };
        assert_eq!(told(&one), told(&other), "{step} {target}");
    }
    let used = async |rule: &str| shared.inspect_key(rule, "alice").await.unwrap().counters[0].used();
    assert_eq!((used("chat").await, used("tokens").await), (used("other").await, used("search").await));
    assert!(used("chat").await > 0);
    shared.reset_key("search", "alice").await.unwrap();
    assert_eq!(used("chat").await, 0);
    shared.override_key("other", "alice", "100/h", Duration::from_secs(60)).await.unwrap();
    let remaining = async || shared.check(&request("/chat/c", &users[0])).await.states()[0].decision.remaining;
    assert_eq!(remaining().await, 95);
}

/// Two instances of a client with one policy: the requests of both leave in one queue.
#[cfg(feature = "client")]
#[tokio::test(flavor = "multi_thread")]
async fn client_layers_of_two_instances_share_one_queue() {
    use tower::{Layer, ServiceExt};
    let server = RedisServer::start(&[]).unwrap();
    let rules = "version: 1\nidentity:\n  destination: { given: true }\nrules:\n  - name: upstream\n    key: destination\n    \
                 limit: 10/s\n    algorithm: leaky-bucket\n    queue: { size: 20, max_wait: 10s }\n";
    let store = format!("store: {{ redis: {{ deadline: 2s, nodes: [\"{}\"] }} }}\n", server.address());
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let mut calls = Vec::new();
    for _ in 0..2 {
        let (limiter, _) = connect(&format!("{rules}{store}")).await;
        let arrived = Arc::clone(&arrived);
        let upstream = tower::service_fn(move |_: http::Request<String>| {
            arrived.lock().unwrap().push(Instant::now());
            std::future::ready(Ok::<_, std::io::Error>(http::Response::new(())))
        });
        let client = tollgate::client::ClientLayer::new().limiter(limiter).layer(upstream);
        for _ in 0..5 {
            let request = http::Request::get("http://one.example/").body(String::new()).unwrap();
            calls.push(tokio::spawn(client.clone().oneshot(request)));
        }
    }
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    let arrived = arrived.lock().unwrap();
    // Ten requests, one every 100 ms. A busy machine may only delay them.
    assert!(arrived[9] - arrived[0] >= Duration::from_millis(850), "{:?}", arrived[9] - arrived[0]);
}
