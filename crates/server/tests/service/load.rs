//! Shutdown under load: every request gets a response.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_server::Drained;

use crate::test_service::TestService;

const BODY: &str = r#"{"ip":"203.0.113.9"}"#;

/// Sends checks on one connection until a response closes it. Panics if there is no response.
fn check_until_closed(server: SocketAddr, responses: &AtomicUsize) {
    let mut connection = connect(server).unwrap();
    while check(&mut connection) {
        responses.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends one check on each new connection. Every connection accepted before the stop gets a response.
fn connect_until_stopped(server: SocketAddr, stopping: &AtomicBool) {
    while !stopping.load(Ordering::SeqCst) {
        let Ok(mut connection) = connect(server) else { return };
        check(&mut connection);
    }
}

fn connect(server: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(BufReader::new(stream))
}

/// Sends a check, and returns whether the connection stays_open open after the response.
fn check(reader: &mut BufReader<TcpStream>) -> bool {
    let length = BODY.len();
    let request = format!("POST /v1/check HTTP/1.1\r\nhost: tollgate\r\ncontent-length: {length}\r\n\r\n{BODY}");
    reader.get_mut().write_all(request.as_bytes()).unwrap();
    let (mut length, mut stays_open, mut line) = (0, true, String::new());
    loop {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "no response");
        let field = line.trim_end().to_ascii_lowercase();
        if field.is_empty() {
            break;
        }
        if let Some(value) = field.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        stays_open &= field != "connection: close";
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    assert!(body.starts_with(br#"{"allowed":"#));
    stays_open
}

#[test]
fn shutdown_under_load_fails_no_request() {
    let mut service = TestService::start();
    let server = service.http;
    let (responses, stopping) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| check_until_closed(server, &responses));
        }
        for _ in 0..4 {
            scope.spawn(|| connect_until_stopped(server, &stopping));
        }
        while responses.load(Ordering::Relaxed) < 2_000 {
            thread::yield_now();
        }
        stopping.store(true, Ordering::SeqCst);
        service.stop();
    });
    assert_eq!(service.shut_down(), Drained::Completely);
}
