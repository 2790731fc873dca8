//! Many kinds of attacks at once take bounded memory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::client::request;
use crate::rls_client::RlsClient;
use crate::running::Running;

/// Far less than the announced sizes, and more than all connection buffers together.
const MAX_GROWTH_KB: u64 = 96 << 10;

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Sends bytes repeatedly until the service closes the connection.
fn flood(server: SocketAddr, head: &[u8], more: &[u8]) {
    let mut stream = connect(server);
    stream.write_all(head).unwrap();
    let sent = (0..1 << 14).take_while(|_| stream.write_all(more).is_ok()).count();
    assert!(sent < 1 << 11, "{sent} times {} bytes were read", more.len());
}

/// The bytes received until the connection ends.
fn response(server: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(server);
    stream.write_all(bytes).unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    String::from_utf8(response).unwrap()
}

#[test]
fn combined_attacks_take_bounded_memory_and_others_are_served() {
    let tollgate = Running::serve_with(&["--grpc", ":0", "--resp", ":0", "--threads", "2"]);
    let (http, grpc, resp) = (tollgate.http, tollgate.grpc.unwrap(), tollgate.resp.unwrap());
    let before_kb = tollgate.resident_kb();
    // Each listener accepts 1,000 connections from an address; these use most of them.
    let mut trickling: Vec<TcpStream> =
        [http, grpc, resp].iter().flat_map(|server| (0..700).map(|_| connect(*server))).collect();
    for stream in &mut trickling {
        let _ = stream.write_all(b"P");
    }
    let post = |field: &str| format!("POST /v1/check HTTP/1.1\r\nhost: tollgate\r\n{field}\r\n\r\n");
    for _ in 0..10 {
        flood(http, post("content-length: 1073741824").as_bytes(), &[b' '; 1 << 16]);
        flood(
            http,
            post("transfer-encoding: chunked").as_bytes(),
            &[b"10000\r\n", &[b' '; 1 << 16][..], b"\r\n"].concat(),
        );
        flood(resp, b"", &[b'x'; 1 << 16]);
    }
    for _ in 0..100 {
        assert!(response(resp, b"*1\r\n$2000000000\r\n").starts_with("-ERR Protocol error: invalid bulk length"));
        assert!(response(resp, b"*1000000\r\n").starts_with("-ERR Protocol error: invalid multibulk length"));
        assert_eq!(response(grpc, b"GET / HTTP/1.1\r\n\r\n"), "");
    }
    for stream in &mut trickling {
        let _ = stream.write_all(b"P");
    }
    // Other clients are served while these connections are open.
    assert_eq!(request(http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).status, 200);
    assert!(RlsClient::open(grpc).call());
    assert!(response(resp, b"PING\r\nQUIT\r\n").starts_with("+PONG\r\n"));
    let growth_kb = tollgate.resident_kb().saturating_sub(before_kb);
    assert!(growth_kb < MAX_GROWTH_KB, "{growth_kb} kB more than before");
    drop(trickling);
}
