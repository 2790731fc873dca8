//! `deploy/kong`: the functions of its plugin, in nginx with the Lua module that Kong is made of. Kong itself is in no
//! package registry. `kong/` has stand-ins for what Kong adds: its plugin development kit and an HTTP client.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::closed_port::ClosedPort;
use crate::gateway::{FailureMode, Gateway, Program};
use crate::recipe;
use crate::scenarios::{self, Passes};
use crate::tollgate::{TOKEN, Tollgate};
use crate::upstream;

const KONG: Program = Program {
    name: "kong",
    // One process, so that ending it leaves no workers.
    arguments: &["-p", ".", "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off; master_process off; pid nginx.pid;"],
    listens: &[10_000],
    package: "nginx and libnginx-mod-http-lua of Debian",
};

fn start(tollgate: SocketAddr, upstream: SocketAddr, failure_mode: FailureMode) -> Gateway {
    let chosen = if failure_mode == FailureMode::Pass { "REFUSE = false" } else { "REFUSE = true" };
    start_with(tollgate, upstream, ("REFUSE = true", chosen))
}

/// Starts nginx with the functions, in which `choice.0` is replaced by `choice.1`.
fn start_with(tollgate: SocketAddr, upstream: SocketAddr, choice: (&str, &str)) -> Gateway {
    Gateway::start_written(&KONG, |directory, ports| {
        let mut ports = ports.to_vec();
        ports.extend([(8000, upstream.port()), (8080, tollgate.port())]);
        write(directory, "nginx.conf", &recipe::behind_proxy(&with_libraries(include_str!("kong/nginx.conf"))), &ports);
        write(directory, "kong.lua", include_str!("kong/kong.lua"), &ports);
        std::fs::create_dir(directory.join("resty")).unwrap();
        write(directory, "resty/http.lua", include_str!("kong/resty/http.lua"), &ports);
        let access = function("access");
        assert_eq!(access.matches(choice.0).count(), 1, "the function must contain {} once", choice.0);
        write(directory, "access.lua", &access.replace(choice.0, choice.1), &ports);
        write(directory, "header_filter.lua", &function("header_filter"), &ports);
    })
}

fn write(directory: &Path, name: &str, text: &str, ports: &[(u16, u16)]) {
    std::fs::write(directory.join(name), recipe::with_ports(text, ports)).unwrap();
}

/// The configuration with the directories of the unpacked packages.
fn with_libraries(text: &str) -> String {
    let program = PathBuf::from(std::env::var_os("KONG").expect("KONG is the path of nginx with the Lua module"));
    let root = program.parent().unwrap().to_str().unwrap();
    text.replace("MODULES", &format!("{root}/usr/lib/nginx/modules"))
        .replace("LIBRARIES", &format!("{root}/usr/share/lua/5.1"))
}

/// The function of a phase, in the configuration of Kong: the indented lines after its name.
fn function(phase: &str) -> String {
    let config = include_str!("../../../../deploy/kong/kong.yaml");
    let (_, rest) = config.split_once(&format!("      {phase}:\n        - |\n")).unwrap();
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("          "));
    lines.map(|line| format!("{}\n", line.trim_start())).collect()
}

#[test]
#[ignore = "needs Kong's nginx"]
fn limited_client_gets_429_with_fields_and_passes_after_the_wait() {
    let tollgate = Tollgate::serve(KONG.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs Kong's nginx"]
fn warning_is_forwarded() {
    let tollgate = Tollgate::serve(KONG.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::warned(&gateway, &Passes { fields_when_allowed: true, problem: true });
}

#[test]
#[ignore = "needs Kong's nginx"]
fn forged_fields_do_not_change_the_client() {
    let tollgate = Tollgate::serve(KONG.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::forged_fields_are_ignored(&gateway);
}

#[test]
#[ignore = "needs Kong's nginx"]
fn clients_behind_a_trusted_proxy_are_distinguished() {
    let tollgate = Tollgate::serve(KONG.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Refuse);
    scenarios::distinguished_behind_a_trusted_proxy(&gateway);
}

#[test]
#[ignore = "needs Kong's nginx"]
fn excessive_header_fields_are_refused() {
    let tollgate = Tollgate::serve(KONG.name);
    let gateway = start(tollgate.http, upstream::start(), FailureMode::Pass);
    let names: Vec<String> = (0..150).map(|field| format!("x-{field}")).collect();
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    assert_eq!(gateway.client(2).send("GET", "/", &fields, "").unwrap().status, 431);
}

#[test]
#[ignore = "needs Kong's nginx"]
fn gateway_passes_or_refuses_as_configured_while_tollgate_is_down() {
    for (failure_mode, refused) in [(FailureMode::Refuse, Some(503)), (FailureMode::Pass, None)] {
        let tollgate = Tollgate::serve(KONG.name);
        let gateway = start(tollgate.http, upstream::start(), failure_mode);
        scenarios::passes_or_refuses_without_tollgate(&gateway, None);
        drop(tollgate);
        scenarios::passes_or_refuses_without_tollgate(&gateway, refused);
    }
}

#[test]
#[ignore = "needs Kong's nginx"]
fn requests_are_counted_while_the_upstream_is_down() {
    let (tollgate, upstream) = (Tollgate::serve(KONG.name), ClosedPort::new());
    let gateway = start(tollgate.http, upstream.address, FailureMode::Refuse);
    scenarios::counted_without_the_upstream(&gateway, 502);
}

#[test]
#[ignore = "needs Kong's nginx"]
fn gateway_sends_the_access_token() {
    let tollgate = Tollgate::serve_with_token(KONG.name);
    let line = r#"headers["x-forwarded-host"] ="#;
    let replacement = format!("headers[\"x-tollgate-token\"] = \"{TOKEN}\"\n{line}");
    let gateway = start_with(tollgate.http, upstream::start(), (line, &replacement));
    scenarios::limited_and_allowed_after_the_wait(&gateway, &Passes { fields_when_allowed: true, problem: true });
}
