//! What happens under load while something else happens: nobody gets no answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_server::Drained;

use crate::running::Running;

const BODY: &str = r#"{"ip":"203.0.113.9"}"#;

/// Asks on one connection until the answer says that it closes. Fails if there is no answer.
fn ask_until_told_to_leave(server: SocketAddr, answered: &AtomicUsize) {
    let mut connection = connect(server).unwrap();
    while ask(&mut connection) {
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Asks once on each connection. Whoever got one before the service stopped gets an answer.
fn connect_until_it_stops(server: SocketAddr, stopping: &AtomicBool) {
    while !stopping.load(Ordering::SeqCst) {
        let Ok(mut connection) = connect(server) else { return };
        ask(&mut connection);
    }
}

fn connect(server: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(BufReader::new(stream))
}

/// Whether the connection stays open after the answer.
fn ask(reader: &mut BufReader<TcpStream>) -> bool {
    let length = BODY.len();
    let request = format!("POST /v1/check HTTP/1.1\r\nhost: tollgate\r\ncontent-length: {length}\r\n\r\n{BODY}");
    reader.get_mut().write_all(request.as_bytes()).unwrap();
    let (mut length, mut stays, mut line) = (0, true, String::new());
    loop {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "no answer");
        let field = line.trim_end().to_ascii_lowercase();
        if field.is_empty() {
            break;
        }
        if let Some(told) = field.strip_prefix("content-length: ") {
            length = told.parse().unwrap();
        }
        stays &= field != "connection: close";
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    assert!(body.starts_with(br#"{"allowed":"#));
    stays
}

#[test]
fn stopping_under_load_fails_no_request() {
    let mut service = Running::start();
    let server = service.http;
    let (answered, stopping) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| ask_until_told_to_leave(server, &answered));
        }
        for _ in 0..4 {
            scope.spawn(|| connect_until_it_stops(server, &stopping));
        }
        while answered.load(Ordering::Relaxed) < 2_000 {
            thread::yield_now();
        }
        stopping.store(true, Ordering::SeqCst);
        service.stop();
    });
    assert_eq!(service.drained(), Drained::Completely);
}
