//! SIGTERM while clients of every listener send requests as fast as they can.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::Connection;
use crate::rls_client::RlsClient;
use crate::running::Running;

/// The number of clients of each listener.
const CLIENTS: usize = 8;

/// The number of responses on each listener before SIGTERM.
const RESPONSES: usize = 500;

fn send_http_requests(server: SocketAddr, answered: &AtomicUsize) {
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

fn send_grpc_calls(server: SocketAddr, answered: &AtomicUsize) {
    let mut client = RlsClient::open(server);
    while client.call() {
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// RESP has no message that announces the end of a connection: it is closed after a complete reply.
fn send_resp_commands(server: SocketAddr, answered: &AtomicUsize) {
    const PIPELINED: usize = 8;
    const REPLY: &[u8] = b"+PONG\r\n";
    let mut connection = TcpStream::connect(server).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let commands = b"*1\r\n$4\r\nPING\r\n".repeat(PIPELINED);
    let mut replies = [0; PIPELINED * REPLY.len()];
    loop {
        let mut received = 0;
        let mut has_ended = connection.write_all(&commands).is_err();
        while !has_ended && received < replies.len() {
            match connection.read(&mut replies[received..]) {
                Ok(0) => has_ended = true,
                Ok(read) => received += read,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => has_ended = true,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(replies[..received], REPLY.repeat(PIPELINED)[..received]);
        assert_eq!(received % REPLY.len(), 0, "a reply is cut off");
        answered.fetch_add(received / REPLY.len(), Ordering::Relaxed);
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
            scope.spawn(|| send_http_requests(http, &answered[0]));
            scope.spawn(|| send_grpc_calls(grpc, &answered[1]));
            scope.spawn(|| send_resp_commands(resp, &answered[2]));
        }
        while answered.iter().any(|answered| answered.load(Ordering::Relaxed) < RESPONSES) {
            thread::yield_now();
        }
        tollgate.signal("TERM");
    });
    assert_eq!(tollgate.line(), "tollgate: stopping: answering requests in flight");
    assert_eq!(tollgate.line(), "tollgate: stopped");
    assert_eq!(tollgate.exit_code(), Some(0));
}
