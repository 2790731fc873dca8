//! Limits of connections: their number, their timeouts and their sizes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_server::{ConnectionLimits, Drained};

use crate::client::{Connection, request};
use crate::test_service::TestService;

/// Far longer than any response takes; a test that hangs should fail.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The default limits, with timeouts that a test can wait for.
fn short_timeouts() -> ConnectionLimits {
    ConnectionLimits {
        header_timeout: Duration::from_millis(300),
        idle_timeout: Duration::from_millis(900),
        body_timeout: Duration::from_millis(300),
        write_timeout: Duration::from_millis(300),
        ..ConnectionLimits::default()
    }
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&server, TIMEOUT).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Reads until the connection is closed.
fn read_until_closed(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    String::from_utf8(bytes).unwrap()
}

/// Returns the value of a metric. Its name includes the labels, as written.
fn metric(service: &TestService, name: &str) -> u64 {
    let metrics = request(service.admin, "GET", "/metrics", "").body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in\n{metrics}"))
}

/// Waits until a metric has this value.
fn wait_for(service: &TestService, name: &str, expected: u64) {
    let begun = Instant::now();
    while metric(service, name) != expected {
        assert!(begun.elapsed() < TIMEOUT, "{name} is {} and not {expected}", metric(service, name));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn connections_beyond_the_limit_per_address_are_refused() {
    let limits = ConnectionLimits { connections_per_address: 3, ..ConnectionLimits::default() };
    let service = TestService::with_limits(limits);
    let mut held: Vec<Connection> = (0..3).map(|_| Connection::open(service.http)).collect();
    for connection in &mut held {
        assert_eq!(connection.request("GET", "/healthz", "").status, 200);
    }
    for _ in 0..5 {
        assert_eq!(read_until_closed(&mut connect(service.http)), "");
    }
    let refused = r#"tollgate_connections_refused_total{listener="http",reason="for_address"}"#;
    assert_eq!(metric(&service, refused), 5);
    assert_eq!(metric(&service, r#"tollgate_connections{listener="http"}"#), 3);
    // Open connections stay open, and a closed one releases its slot.
    assert_eq!(held[0].request("GET", "/healthz", "").status, 200);
    drop(held.pop());
    wait_for(&service, r#"tollgate_connections{listener="http"}"#, 2);
    assert_eq!(request(service.http, "GET", "/healthz", "").status, 200);
}

#[test]
fn connections_beyond_the_total_limit_are_refused() {
    let service = TestService::with_limits(ConnectionLimits { connections: 2, ..ConnectionLimits::default() });
    let mut held: Vec<Connection> = (0..2).map(|_| Connection::open(service.http)).collect();
    for connection in &mut held {
        assert_eq!(connection.request("GET", "/healthz", "").status, 200);
    }
    assert_eq!(read_until_closed(&mut connect(service.http)), "");
    assert_eq!(metric(&service, r#"tollgate_connections_refused_total{listener="http",reason="in_all"}"#), 1);
}

#[test]
fn slow_headers_time_out() {
    let service = TestService::with_limits(short_timeouts());
    let mut stream = connect(service.http);
    let begun = Instant::now();
    for byte in
        b"GET /healthz HTTP/1.1\r\nhost: tollgate\r\nx-slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(read_until_closed(&mut stream), "");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn connections_without_a_request_time_out() {
    let service = TestService::with_limits(short_timeouts());
    let begun = Instant::now();
    assert_eq!(read_until_closed(&mut connect(service.http)), "");
    assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
}

/// The header timeout is far longer.
#[test]
fn short_idle_timeout_closes_used_and_unused_connections() {
    let limits = ConnectionLimits { idle_timeout: Duration::from_secs(1), ..ConnectionLimits::default() };
    let service = TestService::with_limits(limits);
    let (mut used, mut unused) = (Connection::open(service.http), connect(service.http));
    assert_eq!(used.request("GET", "/healthz", "").status, 200);
    let begun = Instant::now();
    wait_for(&service, r#"tollgate_connections{listener="http"}"#, 0);
    assert!(begun.elapsed() < ConnectionLimits::default().header_timeout, "{:?}", begun.elapsed());
    assert_eq!(read_until_closed(&mut unused), "");
}

#[test]
fn idle_connections_are_closed_after_the_idle_timeout() {
    let service = TestService::with_limits(short_timeouts());
    let mut stream = connect(service.http);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: tollgate\r\n\r\n").unwrap();
    let begun = Instant::now();
    assert!(read_until_closed(&mut stream).ends_with("\r\n\r\nok\n"));
    assert!(begun.elapsed() >= Duration::from_millis(890), "{:?}", begun.elapsed());
}

#[test]
fn slow_bodies_get_408() {
    let service = TestService::with_limits(short_timeouts());
    let mut connection = Connection::open(service.http);
    connection.begin_check(20);
    connection.send("{");
    let response = connection.response();
    assert_eq!(response.status, 408);
    assert_eq!(response.field("content-type"), Some("application/problem+json"));
}

#[test]
fn oversized_content_length_gets_413_before_the_body_is_sent() {
    let service = TestService::start();
    let mut connection = Connection::open(service.http);
    let head =
        "POST /v1/check HTTP/1.1\r\nhost: tollgate\r\nexpect: 100-continue\r\ncontent-length: 1073741824\r\n\r\n";
    connection.send(head);
    assert_eq!(connection.response().status, 413);
    // A body that is sent without waiting for 100 Continue is not read.
    let mut stream = connect(service.http);
    stream.write_all(head.replace("expect: 100-continue\r\n", "").as_bytes()).unwrap();
    let chunk = [b' '; 64 << 10];
    let sent = (0..1 << 14).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 1 << 10, "{sent} chunks were accepted");
}

#[test]
fn endless_chunked_bodies_are_refused() {
    let service = TestService::start();
    let mut stream = connect(service.http);
    stream.write_all(b"POST /v1/check HTTP/1.1\r\nhost: tollgate\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let sent = (0..1 << 10).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
    assert!(sent < 1 << 8, "{sent} chunks were accepted");
}

#[test]
fn oversized_chunked_bodies_get_413() {
    let service = TestService::start();
    let mut connection = Connection::open(service.http);
    connection.send("POST /v1/check HTTP/1.1\r\nhost: tollgate\r\ntransfer-encoding: chunked\r\n\r\n");
    connection.send(&format!("10001\r\n{}\r\n0\r\n\r\n", " ".repeat(0x10001)));
    let response = connection.response();
    assert_eq!(
        (response.status, response.json()["detail"].as_str()),
        (413, Some("the body must be at most 65536 bytes"))
    );
}

#[test]
fn oversized_headers_get_431() {
    let service = TestService::start();
    let many = "x: y\r\n".repeat(200);
    let long = format!("x: {}\r\n", "y".repeat(100_000));
    for fields in [many, long] {
        let mut stream = connect(service.http);
        // The request may be refused before all of it is sent.
        let _ = stream.write_all(format!("GET /healthz HTTP/1.1\r\nhost: tollgate\r\n{fields}\r\n").as_bytes());
        let response = read_until_closed(&mut stream);
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 431 "), "{response}");
    }
    assert_eq!(request(service.http, "GET", "/healthz", "").status, 200);
}

#[test]
fn clients_that_do_not_read_are_disconnected() {
    let service = TestService::with_limits(short_timeouts());
    let mut stream = connect(service.http);
    let requests = "GET /metrics HTTP/1.1\r\nhost: tollgate\r\n\r\n".repeat(100);
    let begun = Instant::now();
    // Unread responses fill the buffers, until the service reads no more requests.
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    while stream.write_all(requests.as_bytes()).is_ok() {
        assert!(begun.elapsed() < TIMEOUT, "the service still reads");
    }
    wait_for(&service, r#"tollgate_connections{listener="http"}"#, 0);
}

#[test]
fn thousands_of_slow_clients_do_not_block_others() {
    const SLOW_CLIENTS: usize = 2_000;
    let limits = ConnectionLimits {
        connections_per_address: 10_000,
        header_timeout: Duration::from_secs(2),
        ..ConnectionLimits::default()
    };
    let service = TestService::with_limits(limits);
    let mut slow_clients: Vec<TcpStream> = (0..SLOW_CLIENTS).map(|_| connect(service.http)).collect();
    let begun = Instant::now();
    let mut client = Connection::open(service.http);
    for byte in b"GET / HT" {
        for stream in &mut slow_clients {
            let _ = stream.write_all(&[*byte]);
        }
        assert_eq!(client.request("GET", "/healthz", "").status, 200);
    }
    // All slow connections have timed out.
    wait_for(&service, r#"tollgate_connections{listener="http"}"#, 1);
    assert!(begun.elapsed() < TIMEOUT);
    assert_eq!(client.request("GET", "/healthz", "").status, 200);
}

#[test]
fn shutdown_does_not_wait_for_idle_connections() {
    let service = TestService::start();
    let idle: Vec<TcpStream> = (0..100).map(|_| connect(service.http)).collect();
    assert_eq!(request(service.http, "GET", "/healthz", "").status, 200);
    let begun = Instant::now();
    assert_eq!(service.shut_down(), Drained::Completely);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(idle);
}

#[test]
fn readyz_returns_503_while_stopping() {
    let mut service = TestService::start();
    let mut connection = Connection::open(service.http);
    assert_eq!(connection.request("GET", "/readyz", "").status, 200);
    // The service waits for headers that have begun to arrive, so this request gets its response after the stop.
    connection.send("GET /readyz HTTP/1.1\r\nhost: tollgate\r\n");
    service.stop();
    while TcpStream::connect(service.http).is_ok() {
        thread::yield_now();
    }
    connection.send("\r\n");
    let response = connection.response();
    assert_eq!((response.status, response.field("connection")), (503, Some("close")));
    assert_eq!(service.shut_down(), Drained::Completely);
}
