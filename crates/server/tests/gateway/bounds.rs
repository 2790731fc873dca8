//! What the front end does not take.

use std::io::{Read, Write};
use std::net::TcpStream;

use tollgate_server::Drained;
use tonic::Code;

use crate::messages::{Answer, Ask, OK, ask, descriptor};
use crate::running::Running;

const POLICY: &str = "version: 1
rules: [ { name: per-ip, key: client_ip, limit: 3/min } ]
";

#[test]
fn a_call_needs_a_domain_and_a_descriptor() {
    let service = Running::under(POLICY);
    for call in [
        ask(&[]),
        Ask { domain: String::new(), ..ask(&[descriptor(&[("a", "b")])]) },
        ask(&vec![descriptor(&[]); 129]),
        ask(&[descriptor(&[("a", "b"); 65])]),
    ] {
        let (code, message) = service.try_answer(&call).unwrap_err();
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(!message.is_empty());
    }
}

#[test]
fn a_message_may_not_be_large() {
    let service = Running::under(POLICY);
    let large = "x".repeat(70_000);
    let (code, _) = service.try_answer(&ask(&[descriptor(&[("a", &large)])])).unwrap_err();
    assert_eq!(code, Code::OutOfRange);
    assert_eq!(service.answer(&ask(&[descriptor(&[("a", "b")])])).overall_code, OK);
}

#[test]
fn other_methods_do_not_exist() {
    let service = Running::under(POLICY);
    for path in ["/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", "/", "/grpc.health.v1.Health/Other"] {
        let called: Result<Answer, _> = service.call(path, ask(&[]));
        assert_eq!(called.unwrap_err().0, Code::Unimplemented, "{path}");
    }
}

#[test]
fn what_is_no_http_2_is_turned_away() {
    let service = Running::under(POLICY);
    let mut connection = TcpStream::connect(service.grpc).unwrap();
    connection.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut said = Vec::new();
    // It may say goodbye before it hangs up.
    let _ = connection.read_to_end(&mut said);
    assert_eq!(service.answer(&ask(&[descriptor(&[("a", "b")])])).overall_code, OK);
}

#[test]
fn a_connection_that_stays_open_does_not_hold_it_up() {
    let service = Running::under(POLICY);
    let silent = TcpStream::connect(service.grpc).unwrap();
    assert_eq!(service.answer(&ask(&[descriptor(&[("a", "b")])])).overall_code, OK);
    assert_eq!(service.drained(), Drained::Completely);
    drop(silent);
}
