//! Refusals that a limiter over a real Redis server answers from memory, against the same policy in memory.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tollgate::redis::RedisStore;
use tollgate::store::Source;
use tollgate::{Action, AsyncLimiter, Limiter, Request, Verdict};
use tollgate_testbed::RedisServer;

const HEAD: &str = "version: 1\nidentity:\n  user: { header: X-User, trusted: true }\n";

/// A limiter over a server that it has reached, and one in memory.
async fn limiters(server: &RedisServer, rules: &str) -> (AsyncLimiter, Limiter) {
    let store = format!("store: {{ redis: {{ deadline: 5s, nodes: [\"{}\"] }} }}\n", server.address());
    let shared = tollgate::policy::parse(&format!("{HEAD}{store}{rules}"), "policy", None).unwrap();
    let limiter = AsyncLimiter::connect(&shared.policy, |_| {}).unwrap();
    for _ in 0..5_000 {
        if limiter.store_as::<RedisStore>().unwrap().is_ready() {
            return (limiter, Limiter::from_yaml(&format!("{HEAD}{rules}")).unwrap());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the server was not reached within ten seconds");
}

fn alice(cost: u64) -> Request<'static> {
    Request { cost, identities: &[("user", "alice")], ..Request::from_peer(None) }
}

/// Repeats the request until the verdict comes from memory.
async fn remembered(limiter: &AsyncLimiter, cost: u64) -> Verdict {
    for _ in 0..1_000 {
        let verdict = limiter.check(&alice(cost)).await;
        assert!(!verdict.is_allowed());
        if verdict.source() == Source::Cached {
            return verdict;
        }
    }
    panic!("nothing is answered from memory");
}

#[tokio::test]
async fn remembered_refusal_has_a_time_for_each_cost() {
    let server = RedisServer::start(&[]).unwrap();
    let rules = "rules: [ { name: hourly, key: user, limit: 3/h burst 3 } ]\n";
    let (shared, _) = limiters(&server, rules).await;
    for _ in 0..3 {
        assert!(shared.check(&alice(1)).await.is_allowed());
    }
    // A token comes every twenty minutes.
    for (cost, minutes) in [(1, 20), (2, 40), (3, 60)] {
        let told = remembered(&shared, cost).await.retry_after().unwrap();
        let truth = Duration::from_secs(minutes * 60);
        assert!(told <= truth && told > truth - Duration::from_secs(30), "cost {cost}: {told:?}");
    }
    let never = remembered(&shared, 9).await;
    assert_eq!((never.retry_after(), never.is_impossible()), (None, true));
}

#[tokio::test]
async fn rule_that_blocks_counts_violations_while_another_refuses() {
    let server = RedisServer::start(&[]).unwrap();
    let rules = "rules:
  - { name: plain, key: user, limit: 2/day, algorithm: sliding-window-log }
  - name: strict
    key: user
    limit: 2/day
    algorithm: sliding-window-log
    on_limit: [ { then: reject }, { after: 5 in 10min, action: block 15min } ]
";
    let (shared, memory) = limiters(&server, rules).await;
    let (mut on_redis, mut in_memory) = (0, 0);
    for _ in 0..40 {
        on_redis += u32::from(shared.check(&alice(1)).await.action() == Action::Block);
        in_memory += u32::from(memory.check(&alice(1)).action() == Action::Block);
    }
    assert_eq!((on_redis, in_memory), (33, 33));
}
