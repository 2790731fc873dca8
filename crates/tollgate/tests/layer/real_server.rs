//! Many connections to a real server: not one too many, not one too few.

use std::net::SocketAddr;

use tollgate::{AlgorithmKind, Limiter, LimiterBuilder, rule};

use crate::support::{Client, Server, check_fields, hello};

const CONNECTIONS: usize = 64;
const REQUESTS: usize = 2_000;

/// Sends all requests over all connections at once. How many were answered 200, how many 429.
async fn flood(address: SocketAddr) -> (usize, usize) {
    let clients = (0..CONNECTIONS).map(|at| {
        let share = REQUESTS / CONNECTIONS + usize::from(at < REQUESTS % CONNECTIONS);
        tokio::spawn(flood_over_one(address, share))
    });
    let (mut allowed, mut refused) = (0, 0);
    for client in clients.collect::<Vec<_>>() {
        let (here_allowed, here_refused) = client.await.unwrap();
        allowed += here_allowed;
        refused += here_refused;
    }
    (allowed, refused)
}

async fn flood_over_one(address: SocketAddr, requests: usize) -> (usize, usize) {
    let mut client = Client::connect(address).await;
    let (mut allowed, mut refused) = (0, 0);
    for _ in 0..requests {
        let reply = client.get("/").await;
        check_fields(&reply);
        match reply.status {
            200 => allowed += 1,
            429 => refused += 1,
            status => panic!("{status}: {reply:?}"),
        }
    }
    (allowed, refused)
}

async fn flooded(limiter: LimiterBuilder) -> (usize, usize) {
    let server = Server::start(hello(&limiter.build().unwrap())).await;
    flood(server.address).await
}

/// One token in three minutes: at 500 an hour one would refill every 7 s, and a slow machine would see a 501st request
/// pass.
const LIMIT: &str = "500/day burst 500";

#[tokio::test(flavor = "multi_thread")]
async fn one_rule_admits_exactly_its_limit() {
    let limiter = Limiter::builder().rule(rule("per-ip").per("client_ip").limit(LIMIT));
    assert_eq!(flooded(limiter).await, (500, 1_500));
}

#[tokio::test(flavor = "multi_thread")]
async fn tightest_of_three_rules_decides() {
    let limiter = Limiter::builder()
        .rule(rule("everybody").limit("900/day"))
        .rule(rule("per-ip").per("client_ip").limit(LIMIT))
        .rule(rule("per-path").per("path").limit("600/day").algorithm(AlgorithmKind::FixedWindow));
    assert_eq!(flooded(limiter).await, (500, 1_500));
}

#[tokio::test(flavor = "multi_thread")]
async fn sliding_window_log_admits_exactly_its_limit() {
    let log = rule("per-ip").per("client_ip").limit("500/h").algorithm(AlgorithmKind::SlidingWindowLog);
    assert_eq!(flooded(Limiter::builder().rule(log)).await, (500, 1_500));
}

/// A server may clone its service, or make one, for every connection.
#[tokio::test(flavor = "multi_thread")]
async fn connections_share_their_counters() {
    let limiter = Limiter::builder().rule(rule("per-ip").per("client_ip").limit("3/h")).build().unwrap();
    let server = Server::start(hello(&limiter)).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(Client::connect(server.address).await.get("/").await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
}
