use std::process::Command;

use tollgate_server::Server;

use crate::program::{configured_path, script, stdout_of};
use crate::test_service::TestService;

fn serving(configure: impl FnOnce(Server) -> Server) -> TestService {
    TestService::with_server("version: 1\nrules:\n  - { name: per-ip, key: client_ip, limit: 2/h }\n", configure)
}

fn run_grpcio(service: &TestService, arguments: &[&str]) {
    let mut python = Command::new("python3");
    if let Some(packages) = configured_path("grpcio") {
        python.env("PYTHONPATH", packages);
    }
    // The certificate is for this name.
    let address = format!("localhost:{}", service.grpc.port());
    // The service is local: a proxy must not be used.
    let stdout =
        stdout_of(python.env("no_grpc_proxy", "localhost").arg(script("grpcio.py")).arg(address).args(arguments));
    assert!(stdout.starts_with("grpcio "), "{stdout}");
}

#[test]
#[ignore = "needs grpcio"]
fn grpcio_uses_reflection_and_is_limited() {
    run_grpcio(&serving(|server| server), &[]);
}

#[cfg(feature = "tls")]
#[test]
#[ignore = "needs grpcio"]
fn grpcio_is_limited_over_tls() {
    let authority = crate::authority::Authority::new("grpcio");
    let files = authority.files(&authority.sign("localhost"), None);
    let tls = tollgate_server::Tls::load(files).unwrap();
    let trusted = authority.write("authority.pem", &authority.issuer.pem());
    run_grpcio(&serving(|server| server.with_tls(tls)), &[trusted.to_str().unwrap()]);
}
