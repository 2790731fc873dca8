use std::process::Command;

use tollgate_server::Server;

use crate::program::{place, printed, script};
use crate::running::Running;

fn serving(change: impl FnOnce(Server) -> Server) -> Running {
    Running::with("version: 1\nrules:\n  - { name: per-ip, key: client_ip, limit: 2/h }\n", change)
}

fn ask(service: &Running, arguments: &[&str]) {
    let mut python = Command::new("python3");
    if let Some(packages) = place("grpcio") {
        python.env("PYTHONPATH", packages);
    }
    // The name is that of the certificate.
    let address = format!("localhost:{}", service.grpc.port());
    // Whatever proxy this machine has for its ways out is none for this one.
    let said = printed(python.env("no_grpc_proxy", "localhost").arg(script("grpcio.py")).arg(address).args(arguments));
    assert!(said.starts_with("grpcio "), "{said}");
}

#[test]
#[ignore = "needs grpcio"]
fn it_learns_the_messages_and_is_limited() {
    ask(&serving(|server| server), &[]);
}

#[cfg(feature = "tls")]
#[test]
#[ignore = "needs grpcio"]
fn it_is_limited_over_tls() {
    let authority = crate::authority::Authority::new("grpcio");
    let files = authority.files(&authority.sign("localhost"), None);
    let tls = tollgate_server::Tls::load(files).unwrap();
    let trusted = authority.write("authority.pem", &authority.issuer.pem());
    ask(&serving(|server| server.with_tls(tls)), &[trusted.to_str().unwrap()]);
}
