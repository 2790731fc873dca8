//! The Rust code in the README is the tested example.
#![allow(clippy::unwrap_used, reason = "a helper that fails ends its test")]

use std::time::Duration;

/// The lines that a reader sees of each block of Rust code.
fn examples(text: &str, fence: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines().map(|line| line.trim_start_matches("//!").trim());
    let mut examples = Vec::new();
    while lines.any(|line| line == fence) {
        let block = lines.by_ref().take_while(|line| *line != "```").filter(|line| !line.starts_with("# "));
        examples.push(block.map(str::to_owned).collect());
    }
    examples
}

#[test]
fn readme_shows_the_tested_example() {
    let documented = examples(include_str!("../src/lib.rs"), "```");
    let shown = examples(include_str!("../../../README.md"), "```rust");
    assert_eq!(shown.len(), 3, "the README has three examples: the layer, a limit per key, and a limiter with rules");
    assert_eq!(shown[1..], documented[..2]);
}

#[test]
fn readme_shows_the_output_of_the_example() {
    let shown = &examples(include_str!("../../../README.md"), "```rust")[0];
    let example = include_str!("../../../examples/axum-hello/src/lib.rs");
    for piece in [
        "Limiter::builder().rule(rule(\"per-ip\").per(\"client_ip\").limit(",
        "layer(limiter.layer())",
        "into_make_service_with_connect_info::<SocketAddr>()",
    ] {
        assert!(example.contains(piece) && shown.iter().any(|line| line.contains(piece)), "{piece}");
    }
}

/// The status and the fields of a response.
#[cfg(feature = "axum")]
fn head(response: &axum::response::Response) -> Vec<String> {
    let status = format!("{:?} {}", response.version(), response.status());
    let fields = response.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    std::iter::once(status).chain(fields).collect()
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn readme_shows_the_response_to_a_refused_request() {
    use tower::ServiceExt as _;

    let clock = tollgate::ManualClock::at(1_789_480_800_000_000_000);
    let rule = tollgate::rule("per-ip").per("client_ip").limit("100/min");
    let limiter = tollgate::Limiter::builder().rule(rule).build_with_clock(clock).unwrap();
    let app = axum::Router::new().route("/", axum::routing::get(|| async { "hello" })).layer(limiter.layer());
    let request = || {
        let peer = axum::extract::ConnectInfo(std::net::SocketAddr::from(([203, 0, 113, 9], 40_000)));
        axum::http::Request::get("/").extension(peer).body(axum::body::Body::empty()).unwrap()
    };
    for _ in 0..100 {
        assert_eq!(app.clone().oneshot(request()).await.unwrap().status(), 200);
    }
    let refused = head(&app.oneshot(request()).await.unwrap());
    let page = include_str!("../../../README.md");
    let shown = page.split("```console\n").find(|block| block.starts_with("HTTP/1.1 429")).unwrap();
    let shown: Vec<&str> = shown.lines().take_while(|line| *line != "```").collect();
    let missing: Vec<&&str> = shown.iter().filter(|line| !refused.iter().any(|found| found == *line)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in {refused:?}");
    assert_eq!(shown.len(), 8);
}

/// How many of 100 a minute pass within one minute: 300 at once, then one every 50 ms.
fn passed_in_a_minute(algorithm: tollgate::AlgorithmKind) -> usize {
    let clock = tollgate::ManualClock::at(1_800_000_000_000_000_000);
    let only = tollgate::rule("per-ip").limit("100/min").algorithm(algorithm);
    let limiter = tollgate::Limiter::builder().rule(only).build_with_clock(clock.clone()).unwrap();
    let at_once = [Duration::ZERO; 300].into_iter();
    // The minute ends before its last instant.
    let later = [Duration::from_millis(50); 1_199].into_iter();
    let passed = at_once.chain(later).filter(|pause| {
        clock.advance(*pause);
        limiter.check(&tollgate::Request::from_peer(None)).is_allowed()
    });
    passed.count()
}

#[test]
fn readme_says_how_many_of_100_a_minute_pass_in_one_minute() {
    use tollgate::AlgorithmKind::{SlidingWindowLog, TokenBucket};
    let readme: Vec<&str> = include_str!("../../../README.md").split_whitespace().collect();
    let readme = readme.join(" ");
    for said in [
        "so up to 200 requests can pass within one minute.",
        "For at most 100 requests in any minute, add `.algorithm(AlgorithmKind::SlidingWindowLog)`",
    ] {
        assert!(readme.contains(said), "{said}");
    }
    // The 200th token refills at the very end of the minute, which belongs to the next.
    assert_eq!((passed_in_a_minute(TokenBucket), passed_in_a_minute(SlidingWindowLog)), (199, 100));
}
