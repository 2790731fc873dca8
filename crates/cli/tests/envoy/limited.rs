use std::time::Duration;

use crate::gateway::{Gateway, free_address};
use crate::tollgate::Tollgate;
use crate::upstream;

#[test]
#[ignore = "needs Envoy"]
fn a_client_is_limited_told_and_let_in_again() {
    let tollgate = Tollgate::serve();
    let gateway = Gateway::start(tollgate.grpc, upstream::start(), true);
    let passed = gateway.request("GET", "/");
    assert_eq!((passed.status, passed.field("x-ratelimit-limit")), (200, Some("5")), "{passed:?}");
    assert_eq!(passed.field("ratelimit-policy"), Some("\"per-ip\";q=5;w=5"));
    // One comes back every second, so that a slow machine lets in a few more.
    let refused = (0..100).map(|_| gateway.request("GET", "/")).find(|seen| seen.status != 200).unwrap();
    assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")), "{refused:?}");
    assert_eq!(refused.field("ratelimit"), Some("\"per-ip\";r=0;t=1"), "{refused:?}");
    assert_eq!(refused.field("x-ratelimit-remaining"), Some("0"));
    // A real server has real time, so there is no other way than to wait.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(gateway.request("GET", "/").status, 200);
}

#[test]
#[ignore = "needs Envoy"]
fn the_tighter_rule_of_a_login_decides() {
    let tollgate = Tollgate::serve();
    let gateway = Gateway::start(tollgate.grpc, upstream::start(), true);
    let statuses: Vec<u16> = (0..3).map(|_| gateway.request("POST", "/login?next=%2F").status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    let refused = gateway.request("POST", "/login");
    let retry_after: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&retry_after), "{refused:?}");
    // What was refused was charged to nobody, so that other pages are still open.
    assert_eq!(gateway.request("GET", "/").status, 200);
}

#[test]
#[ignore = "needs Envoy"]
fn while_tollgate_is_away_the_gateway_does_as_it_is_told() {
    for (denies, status) in [(true, 500), (false, 200)] {
        let gateway = Gateway::start(free_address(), upstream::start(), denies);
        assert_eq!(gateway.request("GET", "/").status, status, "failure_mode_deny: {denies}");
    }
}

#[test]
#[ignore = "needs Envoy"]
fn a_tollgate_that_goes_away_is_noticed() {
    let tollgate = Tollgate::serve();
    let gateway = Gateway::start(tollgate.grpc, upstream::start(), true);
    assert_eq!(gateway.request("GET", "/").status, 200);
    drop(tollgate);
    assert_eq!(gateway.request("GET", "/").status, 500);
}
