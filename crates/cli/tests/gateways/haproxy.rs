//! `deploy/haproxy`.

use std::net::SocketAddr;

use crate::closed_port::ClosedPort;
use crate::gateway::{Backends, FailureMode, Gateway, Program};
use crate::scenarios::{self, Passes};
use crate::tollgate::Tollgate;
use crate::upstream;

const HAPROXY: Program = Program {
    name: "haproxy",
    arguments: &["-f", "haproxy.cfg", "-db"],
    // The second is where its Lua action asks.
    listens: &[10_000, 10_001],
    package: "haproxy",
};

/// The condition of the rule that refuses requests while tollgate is unreachable.
const UNREACHABLE: &str = "unless { var(txn.tollgate.status) -m found }";

fn start(tollgate: SocketAddr, upstream: SocketAddr, failure_mode: FailureMode) -> Gateway {
    let chosen = if failure_mode == FailureMode::Pass { "if FALSE" } else { UNREACHABLE };
    Gateway::start(&HAPROXY, &Backends { tollgate: (8080, tollgate), upstream }, (UNREACHABLE, chosen))
}

#[test]
#[ignore = "needs HAProxy"]
fn limited_client_gets_429_with_fields_and_passes_after_the_wait() {
    let tollgate = Tollgate::serve(HAPROXY.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs HAProxy"]
fn warning_is_forwarded() {
    let tollgate = Tollgate::serve(HAPROXY.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::warned(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs HAProxy"]
fn forged_fields_do_not_change_the_client() {
    let tollgate = Tollgate::serve(HAPROXY.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::forged_fields_are_ignored(&gateway);
}

#[test]
#[ignore = "needs HAProxy"]
fn every_spelling_of_a_path_is_limited() {
    let tollgate = Tollgate::serve(HAPROXY.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::every_spelling_of_a_path_is_limited_together(&gateway);
}

#[test]
#[ignore = "needs HAProxy"]
fn clients_behind_a_trusted_proxy_are_distinguished() {
    let tollgate = Tollgate::serve(HAPROXY.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::distinguished_behind_a_trusted_proxy(&gateway);
}

#[test]
#[ignore = "needs HAProxy"]
fn gateway_passes_or_refuses_as_configured_while_tollgate_is_down() {
    for (failure_mode, refused) in [(FailureMode::Refuse, Some(503)), (FailureMode::Pass, None)] {
        let tollgate = Tollgate::serve(HAPROXY.name);
        let gateway = start(tollgate.http, upstream::start(), failure_mode);
        scenarios::passes_or_refuses_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::passes_or_refuses_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs HAProxy"]
fn requests_are_counted_while_the_upstream_is_down() {
    for failure_mode in [FailureMode::Refuse, FailureMode::Pass] {
        let (tollgate, upstream) = (Tollgate::serve(HAPROXY.name), ClosedPort::new());
        let gateway = start(tollgate.http, upstream.address, failure_mode);
        scenarios::counted_without_the_upstream(&gateway, 503);
    }
}

#[test]
#[ignore = "needs HAProxy"]
fn gateway_sends_the_access_token() {
    let tollgate = Tollgate::serve_with_token(HAPROXY.name);
    let choice = (
        "http-response set-header Tollgate-Answered 1",
        "http-response set-header Tollgate-Answered 1\n    http-request set-header X-Tollgate-Token a-token-of-a-gateway",
    );
    let gateway =
        Gateway::start(&HAPROXY, &Backends { tollgate: (8080, tollgate.http), upstream: upstream::start() }, choice);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: true });
}
