//! A policy over counters on a real Redis server.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate::redis::StoreEvent;
use tollgate::{
    Action, AsyncLimiter, Charge, Field, LimitOptions, LimiterError, Quota, RedisStore, Request, Source, Store,
};
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

/// A limiter that has reached its server, and what it said about it.
async fn connect(policy: &str) -> (AsyncLimiter, Arc<Mutex<Vec<StoreEvent>>>) {
    let loaded = tollgate::policy::parse(policy, "policy", None).unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&events);
    let limiter = AsyncLimiter::connect(&loaded.policy, move |event| heard.lock().unwrap().push(event)).unwrap();
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
        let verdict = limiter.decide(&request("/", &alice)).await;
        assert_eq!((verdict.is_allowed(), verdict.source()), (true, Source::Exact));
        assert_eq!(verdict.deciding().unwrap().decision.remaining, remaining);
    }
    let refused = other.decide(&request("/", &alice)).await;
    assert_eq!((refused.status(), refused.rule(), refused.source()), (429, Some("per-user"), Source::Exact));
    assert!(refused.retry_after().unwrap() > Duration::from_secs(3500));
    // The refusal is known by now.
    let known = other.decide(&request("/", &alice)).await;
    assert_eq!((known.status(), known.rule(), known.source()), (429, Some("per-user"), Source::Cached));
    assert!(known.retry_after().unwrap() <= refused.retry_after().unwrap());
    assert!(one.decide(&request("/", &[("user", "bob")])).await.is_allowed());
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
        let verdict = limiter.decide(&request("/", &alice)).await;
        assert!(verdict.is_allowed());
        remaining.push(verdict.states().iter().map(|state| state.decision.remaining).collect::<Vec<_>>());
    }
    assert_eq!(remaining, [[0, 8, 4, 7], [0, 8, 3, 6], [0, 8, 2, 5]]);
}

/// Amounts that no double holds exactly are among them.
#[tokio::test]
async fn costs_above_the_largest_limit_are_refused_for_ever_by_every_algorithm() {
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
            let never = limiter.decide(&ask(cost)).await;
            let told = (never.status(), never.retry_after(), never.is_impossible());
            assert_eq!(told, (429, None, true), "{cost} under {algorithm}");
        }
        assert_eq!(limiter.decide(&ask(1_000_000_000_000)).await.status(), 200, "{algorithm}");
    }
}

#[tokio::test]
async fn those_who_go_on_are_warned_rejected_and_blocked_by_all_instances() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, _) = connect(&policy(&server)).await;
    let (other, _) = connect(&policy(&server)).await;
    let alice = [("user", "alice")];
    let mut actions = Vec::new();
    for limiter in [&one, &other, &one, &other, &one] {
        actions.push(limiter.decide(&request("/login", &alice)).await.action());
    }
    assert_eq!(actions, [Action::Allow, Action::Warn, Action::Reject, Action::Block, Action::Block]);
}

/// An instance that counts alone grants a share of the limit, and says so wherever it names the limit.
/// For three spans of a second and more, without a pause.
#[tokio::test]
async fn key_that_goes_on_is_warned_first_times_among_all_instances() {
    let server = RedisServer::start(&[]).unwrap();
    let rule =
        "{ name: warns, key: client_ip, limit: 1/h, on_limit: [ { first: 2, action: warn }, { then: reject } ] }";
    let store = format!("store: {{ redis: {{ deadline: 2s, nodes: [\"{}\"] }} }}", server.address());
    let mut loaded =
        tollgate::policy::parse(&format!("version: 1\nrules: [ {rule} ]\n{store}\n"), "policy", None).unwrap();
    let mut changed = tollgate::Policy::clone(&loaded.policy);
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
            warned += usize::from(limiter.decide(&request).await.action() == Action::Warn);
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
        again += usize::from(limiters[0].decide(&request).await.action() == Action::Warn);
    }
    assert_eq!(again, 2, "the key is as if untouched");
}

#[tokio::test]
async fn the_share_of_an_instance_alone_is_the_limit_that_it_tells() {
    let server = RedisServer::start(&[]).unwrap();
    let (limiter, _) = connect(&policy(&server)).await;
    let alice = [("user", "alice")];
    let told = async || {
        let mut fields = Vec::new();
        let verdict = limiter.decide(&request("/", &alice)).await;
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
async fn whoever_is_blocked_is_told_so_by_every_number() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, _) = connect(&policy(&server)).await;
    let (other, _) = connect(&policy(&server)).await;
    let alice = [("user", "alice")];
    // With that the other rule is used up, too: only what is wholly known is remembered.
    for path in ["/", "/login", "/login", "/login"] {
        one.decide(&request(path, &alice)).await;
    }
    let mut sources = Vec::new();
    for limiter in [&one, &other, &other] {
        let verdict = limiter.decide(&request("/login", &alice)).await;
        let decision = verdict.deciding().unwrap().decision;
        assert_eq!((verdict.action(), verdict.rule()), (Action::Block, Some("login")));
        assert_eq!((decision.limit, decision.remaining), (1, 0));
        assert_eq!(verdict.retry_after(), decision.retry_after().map(Duration::from_nanos));
        // The limit stands longer than the block.
        assert!(verdict.retry_after().unwrap() > Duration::from_secs(3500));
        assert_eq!(verdict.states().len(), 2);
        assert!(Some(decision.reset_after) >= decision.retry_after());
        sources.push(verdict.source());
    }
    assert_eq!(sources, [Source::Exact, Source::Exact, Source::Cached]);
}

#[tokio::test]
async fn a_permit_is_held_for_all_and_let_go_for_all() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, _) = connect(&policy(&server)).await;
    let (other, _) = connect(&policy(&server)).await;
    let alice = [("user", "alice")];
    let (verdict, permit) = one.admit(&request("/reports", &alice)).await;
    assert!(verdict.is_allowed());
    let (refused, _) = other.admit(&request("/reports", &alice)).await;
    assert_eq!(refused.rule(), Some("reports"));
    drop(permit);
    // Letting go is told to the server in its own time.
    for _ in 0..500 {
        let (verdict, _) = other.admit(&request("/reports", &alice)).await;
        if verdict.is_allowed() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the permit did not come back");
}

#[tokio::test]
async fn without_the_server_each_rule_does_what_it_says_and_all_returns() {
    let mut server = RedisServer::start(&[]).unwrap();
    let policy = policy(&server).replace("deadline: 2s", "deadline: 200ms");
    let (limiter, events) = connect(&policy).await;
    server.kill().unwrap();
    let alice = [("user", "alice")];
    let bob = [("user", "bob")];
    let closed = limiter.decide(&request("/closed", &alice)).await;
    assert_eq!((closed.status(), closed.source()), (503, Source::Fallback));
    // Two thirds of 3 an hour.
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(limiter.decide(&request("/", &bob)).await.status());
    }
    assert_eq!(statuses, [200, 200, 503], "a refusal for want of the store is never a 429");
    for _ in 0..2 {
        let open = limiter.decide(&request("/open", &[("user", "carol")])).await;
        assert_eq!((open.status(), open.source()), (200, Source::Fallback));
    }
    for _ in 0..30 {
        limiter.decide(&request("/closed", &alice)).await;
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
        limiter.decide(&request("/closed", &alice)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(is_back(), "not within ten seconds");
    // What passed meanwhile is charged with the first exact check: two of three are used.
    let first = limiter.decide(&request("/", &bob)).await;
    assert_eq!((first.status(), first.source()), (200, Source::Exact));
    assert_eq!(first.deciding().unwrap().decision.remaining, 0);
    assert_eq!(limiter.decide(&request("/", &bob)).await.status(), 429);
}

#[tokio::test]
async fn a_password_that_is_not_there_is_said_and_not_shown() {
    let text =
        format!("{RULES}store: {{ redis: {{ nodes: [\"127.0.0.1:1\"], password_env: TOLLGATE_TEST_NO_SUCH }} }}\n");
    let loaded = tollgate::policy::parse(&text, "policy", None).unwrap();
    let error = AsyncLimiter::connect(&loaded.policy, |_| {}).unwrap_err();
    assert!(matches!(error, LimiterError::Connect(_)));
    assert!(error.to_string().contains("TOLLGATE_TEST_NO_SUCH"), "{error}");
}

/// The rule of the access list that the documentation tells people to write.
fn documented_access() -> Vec<String> {
    let page = include_str!("../../../docs/redis.md");
    let line = page.lines().find(|line| line.trim().starts_with("ACL SETUSER")).unwrap();
    line.split_whitespace().map(|word| word.replace(">SECRET", ">correct-horse")).collect()
}

#[tokio::test]
async fn the_documented_access_is_enough_and_the_password_comes_from_a_file() {
    let server = RedisServer::start(&[]).unwrap();
    let access = documented_access();
    server.command(&access.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let directory = tollgate_testbed::TemporaryDirectory::new("password").unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "correct-horse\n").unwrap();
    let store = format!("username: tollgate, password_file: \"{}\"", file.display());
    let (limiter, _) = connect(&policy(&server).replace("deadline: 2s", &format!("deadline: 2s, {store}"))).await;
    let alice = [("user", "alice")];
    let verdict = limiter.decide(&request("/login", &alice)).await;
    assert_eq!((verdict.is_allowed(), verdict.source()), (true, Source::Exact));
    assert_eq!(limiter.decide(&request("/login", &alice)).await.action(), Action::Warn);
    // Several buckets in one slot are read at once, and an operator's changes are told to others.
    let buckets = limiter.decide(&request("/buckets", &alice)).await;
    assert_eq!((buckets.is_allowed(), buckets.source()), (true, Source::Exact));
    limiter.reset_key("per-user", "alice").await.unwrap();
    limiter.override_key("per-user", "alice", "7/h", Duration::from_secs(60)).await.unwrap();
    let denied = server.command(&["ACL", "LOG"]).unwrap();
    assert_eq!(denied, Reply::Array(Vec::new()), "something was not allowed");
    let shown = format!("{limiter:?} {:?} {verdict:?}", limiter.store_as::<RedisStore>().unwrap());
    assert!(!shown.contains("correct-horse"), "{shown}");
}

/// The version before named the first limit of a list by its period, too.
#[tokio::test]
async fn list_of_limits_counts_together_with_programs_of_the_version_before() {
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
        let outcome = limiter.store_as::<RedisStore>().unwrap().decide(&[charge(&before[0]), charge(&before[1])]).await;
        (outcome.passed, outcome.decisions[0].remaining)
    };
    let request = Request { identities: &[("user", "alice")], ..Request::from_peer(None) };
    let ask_now = async || {
        let verdict = limiter.decide(&request).await;
        (verdict.is_allowed(), verdict.states()[0].decision.remaining)
    };
    for remaining in (0..10).rev() {
        let asked = if remaining % 3 == 0 { ask_now().await } else { ask_before().await };
        assert_eq!(asked, (true, remaining));
    }
    assert_eq!(ask_now().await, (false, 0), "the limit is spent for both");
    assert_eq!(ask_before().await, (false, 0), "the limit is spent for both");
    assert_eq!(limiter.decide(&request).await.states().len(), 2, "one state for each limit of the list");
    limiter.reset_key("api", "alice").await.unwrap();
    assert_eq!(ask_now().await, (true, 9));
}
