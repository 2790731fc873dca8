//! The admin API for single keys with several instances on one server.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tollgate::limiter::KeyError;
use tollgate::redis::RedisStore;
use tollgate::store::{ChangeError, Source};
use tollgate::{Action, AsyncLimiter, Request};
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
  - name: bucket
    when: { path: /bucket }
    key: user
    limit: 2/h
  - name: login
    when: { path: /login }
    key: user
    limit: 1/h
    algorithm: sliding-window-log
    on_limit: [ { first: 1, action: warn }, { then: reject }, { after: 1 in 1h, action: block 15min } ]
  - name: reports
    when: { path: /reports }
    key: user
    concurrency: 2
";

const HOUR: Duration = Duration::from_secs(3600);
const ALICE: &[(&str, &str)] = &[("user", "alice")];

fn policy(server: &RedisServer, access: &str) -> String {
    format!("{RULES}store: {{ redis: {{ deadline: 2s, {access} nodes: [\"{}\"] }} }}\n", server.address())
}

/// A limiter that has reached its server.
async fn connect(policy: &str) -> AsyncLimiter {
    let loaded = tollgate::policy::parse(policy, "policy", None).unwrap();
    let limiter = AsyncLimiter::connect(&loaded.policy, |_| {}).unwrap();
    until("the server is reached", async || limiter.store_as::<RedisStore>().unwrap().is_ready()).await;
    limiter
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    for _ in 0..5_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("not within ten seconds: {what}");
}

/// Waits until this number of instances is subscribed to changes by operators.
async fn until_heard(server: &RedisServer, instances: i64) {
    until("the instances listen", async || {
        let Reply::Array(counted) = server.command(&["PUBSUB", "NUMSUB", "tollgate:\\.board"]).unwrap() else {
            panic!("no list");
        };
        counted.last() == Some(&Reply::Integer(instances))
    })
    .await;
}

fn request(path: &str) -> Request<'_> {
    Request { method: "GET", target: path, identities: ALICE, ..Request::from_peer(None) }
}

async fn passes(limiter: &AsyncLimiter, path: &str) -> bool {
    limiter.check(&request(path)).await.is_allowed()
}

async fn use_up(limiter: &AsyncLimiter) {
    for _ in 0..3 {
        assert!(passes(limiter, "/").await);
    }
}

/// Repeats the request until the refusal is a remembered one.
async fn until_refused_from_memory(limiter: &AsyncLimiter, path: &str) {
    until("the refusal is remembered", async || limiter.check(&request(path)).await.source() == Source::Cached).await;
}

#[tokio::test]
async fn reset_reaches_an_instance_that_remembers_a_block() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, other) = (connect(&policy(&server, "")).await, connect(&policy(&server, "")).await);
    until_heard(&server, 2).await;
    // The other rule is used up too: a refusal is remembered only if all keys of the request are known.
    assert!(passes(&one, "/").await);
    let mut actions = Vec::new();
    for limiter in [&one, &other, &one] {
        actions.push(limiter.check(&request("/login")).await.action());
    }
    assert_eq!(actions, [Action::Allow, Action::Warn, Action::Block]);
    for limiter in [&one, &other] {
        until_refused_from_memory(limiter, "/login").await;
        let report = limiter.inspect_key("login", "alice").await.unwrap();
        assert_eq!((report.violations_counted(), report.blocked_for_ns.is_some()), (1, true));
    }
    one.reset_key("login", "alice").await.unwrap();
    one.reset_key("per-user", "alice").await.unwrap();
    assert_eq!(one.check(&request("/login")).await.action(), Action::Allow, "at once where it was done");
    until("the other lets pass", async || passes(&other, "/").await).await;
    // The one that passed above has used it up again, which is not a block.
    assert_eq!(other.peek(&request("/login")).await.action(), Action::Warn);
}

#[tokio::test]
async fn reset_reaches_an_instance_that_remembers_a_refusal() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, other) = (connect(&policy(&server, "")).await, connect(&policy(&server, "")).await);
    until_heard(&server, 2).await;
    use_up(&one).await;
    until_refused_from_memory(&other, "/").await;
    one.reset_key("per-user", "alice").await.unwrap();
    until("the other lets pass", async || passes(&other, "/").await).await;
    let report = one.inspect_key("per-user", "alice").await.unwrap();
    assert_eq!(report.counters[0].used(), 1);
}

/// With an access list from before there were operators, the board is still read.
#[tokio::test]
async fn reset_reaches_an_instance_without_pubsub_permission() {
    let server = RedisServer::start(&[]).unwrap();
    let rights = "on >s ~tollgate:* resetchannels +eval +evalsha +time +get +set +del +mget +exists +client|setname";
    let user: Vec<&str> = ["ACL", "SETUSER", "gate"].into_iter().chain(rights.split(' ')).collect();
    server.command(&user).unwrap();
    let directory = tollgate_testbed::TemporaryDirectory::new("password").unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "s").unwrap();
    let access = format!("username: gate, password_file: \"{}\",", file.display());
    let (one, other) = (connect(&policy(&server, &access)).await, connect(&policy(&server, &access)).await);
    assert!(passes(&one, "/").await);
    for limiter in [&one, &other, &one] {
        limiter.check(&request("/login")).await;
    }
    until_refused_from_memory(&other, "/login").await;
    one.reset_key("login", "alice").await.unwrap();
    one.reset_key("per-user", "alice").await.unwrap();
    let is_free = async || other.peek(&request("/login")).await.action() == Action::Allow;
    until("the other instance knows it", is_free).await;
}

#[tokio::test]
async fn override_applies_on_every_instance_and_on_later_ones() {
    let server = RedisServer::start(&[]).unwrap();
    let (one, other) = (connect(&policy(&server, "")).await, connect(&policy(&server, "")).await);
    let limit = async |limiter: &AsyncLimiter| {
        limiter.peek(&request("/")).await.states().first().map(|state| state.decision.limit)
    };
    use_up(&other).await;
    let set = one.override_key("per-user", "alice", "5/h", HOUR).await.unwrap();
    assert_eq!(limit(&one).await, Some(5), "at once where it was done");
    until("the other instance knows it", async || limit(&other).await == Some(5)).await;
    assert!(passes(&other, "/").await && passes(&one, "/").await && !passes(&one, "/").await);
    let listed = other.key_overrides();
    assert_eq!((listed.len(), &listed[0].limit, &listed[0].key), (1, &set.limit, &set.key));
    let late = connect(&policy(&server, "")).await;
    until("one that comes later reads it", async || limit(&late).await == Some(5)).await;
    let loaded = tollgate::policy::parse(&policy(&server, "").replace("3/h", "4/h"), "policy", None).unwrap();
    late.set_policy(&loaded.policy).unwrap();
    assert_eq!(limit(&late).await, Some(5), "a change of the policy does not end it");
    late.end_override("per-user", "alice").await.unwrap();
    assert_eq!(limit(&late).await, Some(4));
    until("the others hear of its end", async || limit(&one).await == Some(3) && limit(&other).await == Some(3)).await;
    assert!(one.key_overrides().is_empty());
}

#[tokio::test]
async fn override_ends_at_its_time() {
    let server = RedisServer::start(&[]).unwrap();
    let one = connect(&policy(&server, "")).await;
    one.override_key("per-user", "alice", "unlimited", Duration::from_millis(50)).await.unwrap();
    until("it has ended", async || one.key_overrides().is_empty()).await;
    assert_eq!(one.peek(&request("/")).await.states()[0].decision.limit, 3);
}

#[tokio::test]
async fn inspecting_a_shared_key_writes_nothing() {
    let server = RedisServer::start(&[]).unwrap();
    let one = connect(&policy(&server, "")).await;
    assert!(passes(&one, "/bucket").await);
    let held = one.permit(&request("/reports")).await.unwrap();
    let state = || server.command(&["DBSIZE"]).unwrap();
    let before = state();
    for (rule, used, held) in [("per-user", 2, None), ("bucket", 1, None), ("login", 0, None), ("reports", 1, Some(1))]
    {
        for _ in 0..3 {
            let report = one.inspect_key(rule, "alice").await.unwrap();
            let counter = &report.counters[0];
            assert_eq!((counter.used(), counter.held()), (used, held), "{rule}");
        }
        assert_eq!(one.inspect_key(rule, "bob").await.unwrap().counters[0].used(), 0);
    }
    assert_eq!(state(), before, "nothing was made");
    drop(held);
    one.reset_key("reports", "alice").await.unwrap();
    assert_eq!(one.inspect_key("reports", "alice").await.unwrap().counters[0].held(), Some(0));
}

#[tokio::test]
async fn admin_call_without_a_server_returns_an_error() {
    let mut server = RedisServer::start(&[]).unwrap();
    let one = connect(&policy(&server, "")).await;
    server.kill().unwrap();
    let no_answer = KeyError::Change(ChangeError::Timeout);
    assert_eq!(one.reset_key("per-user", "alice").await, Err(no_answer.clone()));
    assert_eq!(one.override_key("per-user", "alice", "5/h", HOUR).await, Err(no_answer.clone()));
    assert_eq!(one.inspect_key("per-user", "alice").await.map(|_| ()), Err(no_answer));
    assert!(one.key_overrides().is_empty());
}
