//! The program is told to stop while clients of every kind ask as fast as they can.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::Connection;
use crate::rls_client::RlsClient;
use crate::running::Running;

/// Of each kind.
const CLIENTS: usize = 8;

/// So many answers of each kind before it is told to stop.
const ANSWERS: usize = 500;

fn ask_over_http(server: SocketAddr, answered: &AtomicUsize) {
    let mut connection = Connection::open(server);
    loop {
        let response = connection.request("POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#);
        assert_eq!(response.status, 200);
        answered.fetch_add(1, Ordering::Relaxed);
        if response.field("connection") == Some("close") {
            return;
        }
    }
}

fn ask_over_grpc(server: SocketAddr, answered: &AtomicUsize) {
    let mut client = RlsClient::open(server);
    while client.ask() {
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// RESP has no way to say goodbye: the connection ends, behind a whole answer.
fn ask_over_resp(server: SocketAddr, answered: &AtomicUsize) {
    const AT_A_TIME: usize = 8;
    const ANSWER: &[u8] = b"+PONG\r\n";
    let mut connection = TcpStream::connect(server).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let commands = b"*1\r\n$4\r\nPING\r\n".repeat(AT_A_TIME);
    let mut answers = [0; AT_A_TIME * ANSWER.len()];
    loop {
        let mut heard = 0;
        let mut has_ended = connection.write_all(&commands).is_err();
        while !has_ended && heard < answers.len() {
            match connection.read(&mut answers[heard..]) {
                Ok(0) => has_ended = true,
                Ok(read) => heard += read,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => has_ended = true,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(answers[..heard], ANSWER.repeat(AT_A_TIME)[..heard]);
        assert_eq!(heard % ANSWER.len(), 0, "an answer is cut");
        answered.fetch_add(heard / ANSWER.len(), Ordering::Relaxed);
        if has_ended {
            return;
        }
    }
}

#[test]
fn sigterm_under_load_fails_no_request() {
    let mut tollgate = Running::serve_with(&["--grpc", ":0", "--resp", ":0"]);
    let (http, grpc, resp) = (tollgate.http, tollgate.grpc.unwrap(), tollgate.resp.unwrap());
    let answered: [AtomicUsize; 3] = Default::default();
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| ask_over_http(http, &answered[0]));
            scope.spawn(|| ask_over_grpc(grpc, &answered[1]));
            scope.spawn(|| ask_over_resp(resp, &answered[2]));
        }
        while answered.iter().any(|answered| answered.load(Ordering::Relaxed) < ANSWERS) {
            thread::yield_now();
        }
        tollgate.signal("TERM");
    });
    assert_eq!(tollgate.line(), "tollgate: stopping: answering what is under way");
    assert_eq!(tollgate.line(), "tollgate: stopped");
    assert_eq!(tollgate.exit_code(), Some(0));
}
