//! Clients that mean harm, all at once: what they cost the program is bounded.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::client::request;
use crate::rls_client::RlsClient;
use crate::running::Running;

/// Far less than what they announce, and more than their buffers take together.
const MOST_MORE_KB: u64 = 96 << 10;

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Sends bytes again and again until the service has had enough.
fn pour(server: SocketAddr, head: &[u8], more: &[u8]) {
    let mut stream = connect(server);
    stream.write_all(head).unwrap();
    let sent = (0..1 << 14).take_while(|_| stream.write_all(more).is_ok()).count();
    assert!(sent < 1 << 11, "{sent} times {} bytes were taken", more.len());
}

/// What is answered until the connection ends.
fn answer(server: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(server);
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn what_hostile_clients_cost_is_bounded() {
    let tollgate = Running::serve_with(&["--grpc", ":0", "--resp", ":0", "--threads", "2"]);
    let (http, grpc, resp) = (tollgate.http, tollgate.grpc.unwrap(), tollgate.resp.unwrap());
    let before_kb = tollgate.resident_kb();
    // Each listener grants an address a thousand connections, of which these take most.
    let mut trickling: Vec<TcpStream> =
        [http, grpc, resp].iter().flat_map(|server| (0..700).map(|_| connect(*server))).collect();
    for stream in &mut trickling {
        let _ = stream.write_all(b"P");
    }
    let post = |field: &str| format!("POST /v1/check HTTP/1.1\r\nhost: tollgate\r\n{field}\r\n\r\n");
    for _ in 0..10 {
        pour(http, post("content-length: 1073741824").as_bytes(), &[b' '; 1 << 16]);
        pour(
            http,
            post("transfer-encoding: chunked").as_bytes(),
            &[b"10000\r\n", &[b' '; 1 << 16][..], b"\r\n"].concat(),
        );
        pour(resp, b"", &[b'x'; 1 << 16]);
    }
    for _ in 0..100 {
        assert!(answer(resp, b"*1\r\n$2000000000\r\n").starts_with("-ERR Protocol error: invalid bulk length"));
        assert!(answer(resp, b"*1000000\r\n").starts_with("-ERR Protocol error: invalid multibulk length"));
        assert_eq!(answer(grpc, b"GET / HTTP/1.1\r\n\r\n"), "");
    }
    for stream in &mut trickling {
        let _ = stream.write_all(b"P");
    }
    // While they still hold what they have, everybody else is answered.
    assert_eq!(request(http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#).status, 200);
    assert!(RlsClient::open(grpc).ask());
    assert!(answer(resp, b"PING\r\nQUIT\r\n").starts_with("+PONG\r\n"));
    let more_kb = tollgate.resident_kb().saturating_sub(before_kb);
    assert!(more_kb < MOST_MORE_KB, "{more_kb} kB more than before");
    drop(trickling);
}
