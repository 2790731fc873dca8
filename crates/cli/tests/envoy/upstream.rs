//! The service behind the gateway: it greets whoever comes through.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Runs as long as the test does.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(greet));
    address
}

fn greet(mut connection: TcpStream) {
    let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
    // A request without a body ends with an empty line.
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nhello\n");
}
