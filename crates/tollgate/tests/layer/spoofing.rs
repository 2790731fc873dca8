//! Forged headers do not help a client, on a real server.

use tollgate::{Limiter, rule};

use crate::support::{Client, Server, hello};

/// The client is on loopback; the test decides whether that is a trusted proxy.
async fn server(trusted: &[&str]) -> Server {
    let trusted = trusted.iter().map(|network| network.parse().unwrap()).collect();
    let limiter = Limiter::builder()
        .rule(rule("per-ip").per("client_ip").limit("2/h"))
        .with(|policy| policy.client_ip.trusted_proxies = trusted);
    Server::start(hello(&limiter.build().unwrap())).await
}

async fn statuses(server: &Server, requests: &[&[(&str, &str)]]) -> Vec<u16> {
    let mut client = Client::connect(server.address).await;
    let mut statuses = Vec::new();
    for headers in requests {
        statuses.push(client.send("GET", "/", headers).await.status);
    }
    statuses
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_forwarded_headers_of_untrusted_peers_are_ignored() {
    let forged: [&[(&str, &str)]; 6] = [
        &[],
        &[("X-Forwarded-For", "198.51.100.1")],
        &[("X-Forwarded-For", "198.51.100.2"), ("x-forwarded-for", "198.51.100.3")],
        &[("X-Forwarded-For", "198.51.100.4, 127.0.0.1"), ("Connection", "X-Forwarded-For")],
        &[("Forwarded", "for=198.51.100.5"), ("X-Real-IP", "198.51.100.5"), ("CF-Connecting-IP", "198.51.100.5")],
        &[("X-Forwarded-For", "::1"), ("X-Client-IP", "10.0.0.1"), ("True-Client-IP", "10.0.0.1")],
    ];
    assert_eq!(statuses(&server(&[]).await, &forged).await, [200, 200, 429, 429, 429, 429]);
}

/// A trusted proxy appends the address of its peer; addresses before it are unverified.
#[tokio::test(flavor = "multi_thread")]
async fn only_addresses_added_by_trusted_proxies_count() {
    let server = server(&["127.0.0.0/8"]).await;
    let said: [&[(&str, &str)]; 5] = [
        &[("X-Forwarded-For", "203.0.113.7")],
        &[("X-Forwarded-For", "198.51.100.1, 203.0.113.7")],
        // The proxy's line is the last, whatever the client sent before it.
        &[("X-Forwarded-For", "198.51.100.2"), ("X-Forwarded-For", "203.0.113.7")],
        &[("X-Forwarded-For", "198.51.100.3, 203.0.113.7"), ("Connection", "close-not, X-Forwarded-For")],
        &[("X-Forwarded-For", "198.51.100.1")],
    ];
    assert_eq!(statuses(&server, &said).await, [200, 200, 429, 429, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_encoding_of_a_path_avoids_its_rule() {
    let limiter = Limiter::builder()
        .rule(rule("login").per("client_ip").method("POST").path("/auth/login").limit("1/h"))
        .build()
        .unwrap();
    let server = Server::start(hello(&limiter)).await;
    let mut client = Client::connect(server.address).await;
    assert_eq!(client.send("POST", "/auth/login", &[("content-length", "0")]).await.status, 200);
    for target in [
        "/auth/login",
        "//auth/login",
        "/auth//login",
        "/auth/%6cogin",
        "/auth/%6Cogin",
        "/%61uth/login",
        "/auth/./login",
        "/x/../auth/login",
        "/auth/login/",
        "/auth/login?next=/",
        "/auth/login/?",
        "http://localhost/auth/login",
        "http://localhost//auth/%6cogin",
    ] {
        let reply = client.send("POST", target, &[("content-length", "0")]).await;
        assert_eq!(reply.status, 429, "{target}");
    }
    for target in ["/auth/logins", "/auth/login/x", "/auth"] {
        assert_eq!(client.send("POST", target, &[("content-length", "0")]).await.status, 200, "{target}");
    }
}

/// A nested router strips its prefix; the policy matches the path that the client sent.
#[tokio::test(flavor = "multi_thread")]
async fn nested_router_does_not_hide_the_path() {
    let limiter = Limiter::builder().rule(rule("login").path("/api/login").limit("1/h")).build().unwrap();
    let server = Server::start(axum::Router::new().nest("/api", hello(&limiter))).await;
    let mut client = Client::connect(server.address).await;
    assert_eq!(client.get("/api/login").await.status, 200);
    assert_eq!(client.get("/api/login").await.status, 429);
}
