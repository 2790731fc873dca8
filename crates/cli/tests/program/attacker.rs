//! Attacks from one address. Other requests of a test come from another address, so that the test measures the effect
//! on other clients.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tollgate_testbed::http2::{END_HEADERS, HEADERS, greet, write_frame};

/// A loopback address; all of 127.0.0.0/8 are.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// Connects from the attacking address. The socket is non-blocking.
pub(crate) fn connect(server: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((ADDRESS, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Connections that send the same bytes, as far as the service reads them, and never read.
pub(crate) struct Senders {
    bytes: Vec<u8>,
    /// Each with the number of bytes sent; `None` once it is closed.
    streams: Vec<Option<(TcpStream, usize)>>,
}

impl Senders {
    pub(crate) fn open(server: SocketAddr, connections: usize, bytes: Vec<u8>) -> Senders {
        let streams = (0..connections).map(|_| Some((connect(server), 0))).collect();
        Senders { bytes, streams }
    }

    /// Sends as much as possible for this time.
    pub(crate) fn send_for(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            for slot in &mut self.streams {
                let Some((stream, sent)) = slot else { continue };
                match stream.write(&self.bytes[*sent..]) {
                    Ok(more) => *sent += more,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => *slot = None,
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The bytes of an HTTP/2 connection that opens `streams` streams to a method and ends none. Each has `fields` header
/// fields of one byte each: `age` without a value, which HPACK indexes.
pub(crate) fn header_bomb(path: &str, streams: u32, fields: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    greet(&mut bytes);
    for at in 0..streams {
        // `:method POST` and `:scheme http`.
        let mut block = vec![0x83, 0x86];
        if at == 0 {
            // The path enters the dynamic table, and later streams refer to it.
            block.push(0x44);
            block.push(u8::try_from(path.len()).unwrap());
            block.extend(path.bytes());
        } else {
            block.push(0xbe);
        }
        block.extend(std::iter::repeat_n(0x95, fields));
        write_frame(&mut bytes, HEADERS, END_HEADERS, 2 * at + 1, &block);
    }
    bytes
}

/// A POST that announces a body of `announced` bytes and contains a part of it.
pub(crate) fn post(path: &str, announced: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: tollgate\r\ncontent-length: {announced}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A batch of a thousand checks.
pub(crate) fn batch_of_a_thousand(check: &str) -> String {
    format!("[{}]", vec![check; 1_000].join(","))
}
