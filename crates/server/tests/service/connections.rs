//! Connections that want too much: too many, too slow, too large.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_server::{ConnectionLimits, Drained};

use crate::client::{Connection, request};
use crate::running::Running;

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// As the defaults are, but with timeouts that a test can wait for.
fn impatient() -> ConnectionLimits {
    ConnectionLimits {
        header_timeout: Duration::from_millis(300),
        idle_timeout: Duration::from_millis(900),
        body_timeout: Duration::from_millis(300),
        write_timeout: Duration::from_millis(300),
        ..ConnectionLimits::default()
    }
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&server, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Everything that comes until the other end closes.
fn until_closed(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    String::from_utf8(bytes).unwrap()
}

/// The value of a metric without labels, or with them as they are written.
fn metric(service: &Running, name: &str) -> u64 {
    let metrics = request(service.admin, "GET", "/metrics", "").body;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in\n{metrics}"))
}

/// Waits until a metric has a value, and fails if it never does.
fn wait_for(service: &Running, name: &str, expected: u64) {
    let begun = Instant::now();
    while metric(service, name) != expected {
        assert!(begun.elapsed() < PATIENCE, "{name} is {} and not {expected}", metric(service, name));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn one_address_has_no_more_than_its_places() {
    let limits = ConnectionLimits { connections_per_address: 3, ..ConnectionLimits::default() };
    let service = Running::granting(limits);
    let mut held: Vec<Connection> = (0..3).map(|_| Connection::open(service.http)).collect();
    for connection in &mut held {
        assert_eq!(connection.request("GET", "/healthz", "").status, 200);
    }
    for _ in 0..5 {
        assert_eq!(until_closed(&mut connect(service.http)), "");
    }
    let refused = r#"tollgate_connections_refused_total{listener="http",reason="for_address"}"#;
    assert_eq!(metric(&service, refused), 5);
    assert_eq!(metric(&service, r#"tollgate_connections{listener="http"}"#), 3);
    // Those who are in stay in, and whoever leaves makes room.
    assert_eq!(held[0].request("GET", "/healthz", "").status, 200);
    drop(held.pop());
    wait_for(&service, r#"tollgate_connections{listener="http"}"#, 2);
    assert_eq!(request(service.http, "GET", "/healthz", "").status, 200);
}

#[test]
fn there_are_no_more_connections_than_places() {
    let service = Running::granting(ConnectionLimits { connections: 2, ..ConnectionLimits::default() });
    let mut held: Vec<Connection> = (0..2).map(|_| Connection::open(service.http)).collect();
    for connection in &mut held {
        assert_eq!(connection.request("GET", "/healthz", "").status, 200);
    }
    assert_eq!(until_closed(&mut connect(service.http)), "");
    assert_eq!(metric(&service, r#"tollgate_connections_refused_total{listener="http",reason="in_all"}"#), 1);
}

#[test]
fn slow_heads_are_cut_off() {
    let service = Running::granting(impatient());
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
    assert_eq!(until_closed(&mut stream), "");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn who_says_nothing_is_cut_off() {
    let service = Running::granting(impatient());
    let begun = Instant::now();
    assert_eq!(until_closed(&mut connect(service.http)), "");
    assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
}

/// Though the head of a request might take far longer.
#[test]
fn a_short_silence_closes_a_connection_that_has_asked_once() {
    let limits = ConnectionLimits { idle_timeout: Duration::from_secs(1), ..ConnectionLimits::default() };
    let service = Running::granting(limits);
    let (mut asked, mut silent) = (Connection::open(service.http), connect(service.http));
    assert_eq!(asked.request("GET", "/healthz", "").status, 200);
    let begun = Instant::now();
    wait_for(&service, r#"tollgate_connections{listener="http"}"#, 0);
    assert!(begun.elapsed() < ConnectionLimits::default().header_timeout, "{:?}", begun.elapsed());
    assert_eq!(until_closed(&mut silent), "");
}

#[test]
fn an_idle_connection_is_closed_after_a_while() {
    let service = Running::granting(impatient());
    let mut stream = connect(service.http);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: tollgate\r\n\r\n").unwrap();
    let begun = Instant::now();
    assert!(until_closed(&mut stream).ends_with("\r\n\r\nok\n"));
    assert!(begun.elapsed() >= Duration::from_millis(890), "{:?}", begun.elapsed());
}

#[test]
fn slow_bodies_are_cut_off_with_a_reason() {
    let service = Running::granting(impatient());
    let mut connection = Connection::open(service.http);
    connection.begin_check(20);
    connection.send("{");
    let response = connection.response();
    assert_eq!(response.status, 408);
    assert_eq!(response.field("content-type"), Some("application/problem+json"));
}

#[test]
fn a_gigabyte_that_is_announced_is_refused_before_it_is_sent() {
    let service = Running::start();
    let mut connection = Connection::open(service.http);
    let head =
        "POST /v1/check HTTP/1.1\r\nhost: tollgate\r\nexpect: 100-continue\r\ncontent-length: 1073741824\r\n\r\n";
    connection.send(head);
    assert_eq!(connection.response().status, 413);
    // And one who sends without being asked does not get it read.
    let mut stream = connect(service.http);
    stream.write_all(head.replace("expect: 100-continue\r\n", "").as_bytes()).unwrap();
    let chunk = [b' '; 64 << 10];
    let sent = (0..1 << 14).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 1 << 10, "{sent} chunks were taken");
}

#[test]
fn a_chunked_body_without_end_is_refused() {
    let service = Running::start();
    let mut stream = connect(service.http);
    stream.write_all(b"POST /v1/check HTTP/1.1\r\nhost: tollgate\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let sent = (0..1 << 10).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
    assert!(sent < 1 << 8, "{sent} chunks were taken");
}

#[test]
fn a_chunked_body_that_is_too_large_is_told_so() {
    let service = Running::start();
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
fn heads_are_bounded() {
    let service = Running::start();
    let many = "x: y\r\n".repeat(200);
    let long = format!("x: {}\r\n", "y".repeat(100_000));
    for fields in [many, long] {
        let mut stream = connect(service.http);
        // It may be refused before all of it was sent.
        let _ = stream.write_all(format!("GET /healthz HTTP/1.1\r\nhost: tollgate\r\n{fields}\r\n").as_bytes());
        let answer = until_closed(&mut stream);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    assert_eq!(request(service.http, "GET", "/healthz", "").status, 200);
}

#[test]
fn who_does_not_read_is_cut_off() {
    let service = Running::granting(impatient());
    let mut stream = connect(service.http);
    let requests = "GET /metrics HTTP/1.1\r\nhost: tollgate\r\n\r\n".repeat(100);
    let begun = Instant::now();
    // Answers fill the buffers between us, until nothing is read of what we send.
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    while stream.write_all(requests.as_bytes()).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it reads for ever");
    }
    wait_for(&service, r#"tollgate_connections{listener="http"}"#, 0);
}

#[test]
fn thousands_who_trickle_hold_nobody_up() {
    const TRICKLING: usize = 2_000;
    let limits = ConnectionLimits {
        connections_per_address: 10_000,
        header_timeout: Duration::from_secs(2),
        ..ConnectionLimits::default()
    };
    let service = Running::granting(limits);
    let mut trickling: Vec<TcpStream> = (0..TRICKLING).map(|_| connect(service.http)).collect();
    let begun = Instant::now();
    let mut client = Connection::open(service.http);
    for byte in b"GET / HT" {
        for stream in &mut trickling {
            let _ = stream.write_all(&[*byte]);
        }
        assert_eq!(client.request("GET", "/healthz", "").status, 200);
    }
    // Each has had its time, and all are gone.
    wait_for(&service, r#"tollgate_connections{listener="http"}"#, 1);
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(client.request("GET", "/healthz", "").status, 200);
}

#[test]
fn stopping_does_not_wait_for_who_says_nothing() {
    let service = Running::start();
    let silent: Vec<TcpStream> = (0..100).map(|_| connect(service.http)).collect();
    assert_eq!(request(service.http, "GET", "/healthz", "").status, 200);
    let begun = Instant::now();
    assert_eq!(service.drained(), Drained::Completely);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(silent);
}

#[test]
fn while_it_stops_it_is_not_ready() {
    let mut service = Running::start();
    let mut connection = Connection::open(service.http);
    assert_eq!(connection.request("GET", "/readyz", "").status, 200);
    // A head that has begun is waited for, so there is a request to answer once it has stopped for sure.
    connection.send("GET /readyz HTTP/1.1\r\nhost: tollgate\r\n");
    service.stop();
    while TcpStream::connect(service.http).is_ok() {
        thread::yield_now();
    }
    connection.send("\r\n");
    let response = connection.response();
    assert_eq!((response.status, response.field("connection")), (503, Some("close")));
    assert_eq!(service.drained(), Drained::Completely);
}
