//! `tollgate ready`: the health check of a container.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Output;
use std::thread;

use crate::reload::Directory;
use crate::running::{Running, tollgate};

fn ready(http: SocketAddr) -> Output {
    let mut command = tollgate(&["ready", "--url", &format!("http://{http}")]);
    command.env_remove("TOLLGATE_ACCESS_TOKEN").output().unwrap()
}

/// Answers one request with a status.
fn answer_once(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let length = connection.read(&mut request).unwrap();
        assert!(request[..length].starts_with(b"GET /readyz HTTP/1.0\r\n"));
        connection.write_all(format!("HTTP/1.0 {status}\r\nContent-Length: 4\r\n\r\nwhy\n").as_bytes()).unwrap();
    });
    address
}

#[test]
fn running_service_is_ready_without_a_token() {
    let directory = Directory::new("ready");
    let token = directory.write("token", "a-token-of-the-callers");
    let running = Running::serve_with(&["--grpc", "off", "--resp", "off", "--access-token-file", &token]);
    let output = ready(running.http);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty() && !output.stdout.is_empty(), "{output:?}");
}

#[test]
fn exit_code_is_1_for_a_service_that_is_not_ready_and_3_for_none() {
    let output = ready(answer_once("503 Service Unavailable"));
    assert_eq!((output.status.code(), output.stdout), (Some(1), b"why\n".to_vec()));
    let output = ready(answer_once("404 Not Found"));
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: /readyz returned status 404\nhint: "));
    // Closed again, so that nothing listens there.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(ready(closed).status.code(), Some(3));
}
