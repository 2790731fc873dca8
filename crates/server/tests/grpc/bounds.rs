//! The bounds of the gRPC front end: message sizes, methods and protocols.

use std::io::{Read, Write};
use std::net::TcpStream;

use tollgate_server::Drained;
use tonic::Code;

use crate::messages::{OK, RateLimitRequest, RateLimitResponse, descriptor, rate_limit_request};
use crate::test_service::TestService;

const POLICY: &str = "version: 1
rules: [ { name: per-ip, key: client_ip, limit: 3/min } ]
";

#[test]
fn calls_without_domain_or_with_too_few_or_too_many_descriptors_are_invalid() {
    let service = TestService::with_policy(POLICY);
    for call in [
        rate_limit_request(&[]),
        RateLimitRequest { domain: String::new(), ..rate_limit_request(&[descriptor(&[("a", "b")])]) },
        rate_limit_request(&vec![descriptor(&[]); 129]),
        rate_limit_request(&[descriptor(&[("a", "b"); 65])]),
    ] {
        let (code, message) = service.try_rate_limit(&call).unwrap_err();
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(!message.is_empty());
    }
}

#[test]
fn oversized_messages_are_out_of_range() {
    let service = TestService::with_policy(POLICY);
    let large = "x".repeat(70_000);
    let (code, _) = service.try_rate_limit(&rate_limit_request(&[descriptor(&[("a", &large)])])).unwrap_err();
    assert_eq!(code, Code::OutOfRange);
    assert_eq!(service.rate_limit(&rate_limit_request(&[descriptor(&[("a", "b")])])).overall_code, OK);
}

#[test]
fn unknown_methods_are_unimplemented() {
    let service = TestService::with_policy(POLICY);
    for path in ["/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", "/", "/grpc.health.v1.Health/Other"] {
        let called: Result<RateLimitResponse, _> = service.call(path, rate_limit_request(&[]));
        assert_eq!(called.unwrap_err().0, Code::Unimplemented, "{path}");
    }
}

#[test]
fn non_http2_connections_are_closed() {
    let service = TestService::with_policy(POLICY);
    let mut connection = TcpStream::connect(service.grpc).unwrap();
    connection.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut received = Vec::new();
    // The server may send GOAWAY before it closes.
    let _ = connection.read_to_end(&mut received);
    assert_eq!(service.rate_limit(&rate_limit_request(&[descriptor(&[("a", "b")])])).overall_code, OK);
}

#[test]
fn open_connections_do_not_delay_shutdown() {
    let service = TestService::with_policy(POLICY);
    let idle = TcpStream::connect(service.grpc).unwrap();
    assert_eq!(service.rate_limit(&rate_limit_request(&[descriptor(&[("a", "b")])])).overall_code, OK);
    assert_eq!(service.shut_down(), Drained::Completely);
    drop(idle);
}
