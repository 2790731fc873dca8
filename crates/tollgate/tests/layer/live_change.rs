//! A policy that changes while it is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::policy::{CheckedPolicy, PolicyBuilder};
use tollgate::{Limiter, rule};

use crate::support::{Client, Server, check_fields, clock, get, hello, item};

fn policy(rate: &str) -> CheckedPolicy {
    PolicyBuilder::default().rule(rule("per-ip").per("client_ip").limit(rate)).build().unwrap()
}

#[tokio::test]
async fn usage_survives_a_policy_change() {
    let limiter = Limiter::with_clock(&policy("10/h"), clock()).unwrap();
    let app = hello(&limiter);
    for _ in 0..4 {
        assert_eq!(get(&app, "/").await.status, 200);
    }
    limiter.set_policy(&policy("6/h")).unwrap();
    let reply = get(&app, "/").await;
    check_fields(&reply);
    assert_eq!(item(&reply, "ratelimit-policy", "per-ip")[0], ("q".to_owned(), 6));
    assert_eq!(item(&reply, "ratelimit", "per-ip")[0], ("r".to_owned(), 1));
    limiter.set_policy(&policy("5/h")).unwrap();
    assert_eq!(get(&app, "/").await.status, 429);
    limiter.set_policy(&policy("20/h")).unwrap();
    assert_eq!(item(&get(&app, "/").await, "ratelimit", "per-ip")[0], ("r".to_owned(), 14));
}

/// The policy is replaced over and over between the same two while requests
/// run: whichever of them a request meets, what it used stays used. (They hold
/// the same: a limit that holds less would forget the rest.)
#[tokio::test(flavor = "multi_thread")]
async fn policy_changes_under_load_admit_nothing_extra() {
    let limiter = Limiter::new(&policy("300/day")).unwrap();
    let server = Server::start(hello(&limiter)).await;
    let done = Arc::new(AtomicBool::new(false));
    let changing = tokio::task::spawn_blocking({
        let (limiter, done) = (limiter.clone(), Arc::clone(&done));
        move || {
            let policies = [policy("300/day"), policy("300/week")];
            let mut changes = 0;
            while !done.load(Ordering::SeqCst) {
                limiter.set_policy(&policies[changes % 2]).unwrap();
                changes += 1;
            }
            changes
        }
    });
    let clients = (0..8).map(|_| {
        let address = server.address;
        tokio::spawn(async move {
            let mut client = Client::connect(address).await;
            let mut allowed = 0;
            for _ in 0..100 {
                let reply = client.get("/").await;
                check_fields(&reply);
                allowed += u32::from(reply.status == 200);
            }
            allowed
        })
    });
    let mut allowed = 0;
    for client in clients.collect::<Vec<_>>() {
        allowed += client.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    assert!(changing.await.unwrap() > 10);
    // What time refills meanwhile is less than one.
    assert!((299..=300).contains(&allowed), "{allowed}");
}
