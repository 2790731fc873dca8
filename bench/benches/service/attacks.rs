//! Attacks on the service.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};
use tollgate_testbed::http2::{END_HEADERS, HEADERS, greet, write_frame};

use crate::process::Process;

/// The address of the attacker: on this machine, but not that of the well-behaved client.
const HOSTILE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// An attack, in steps. A step never waits.
pub(crate) trait Attack {
    fn step(&mut self);
}

/// All attacks by name; the first does nothing.
pub(crate) fn all(tollgate: &Process) -> Vec<(&'static str, Box<dyn Attack>)> {
    let [http, grpc, resp] = ["http", "grpc", "resp"].map(|listener| tollgate.address(listener));
    let check = |body: &[u8]| post(&format!("content-length: {}", body.len()), body);
    let announced = post("content-length: 1073741824", b"");
    let chunked = post("transfer-encoding: chunked", b"");
    let chunk = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
    let throttle = |key: &[u8]| {
        let mut bytes = format!("*5\r\n$11\r\nCL.THROTTLE\r\n${}\r\n", key.len()).into_bytes();
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(b"\r\n$2\r\n15\r\n$2\r\n10\r\n$1\r\n1\r\n");
        bytes
    };
    vec![
        ("nothing", Box::new(Nothing)),
        ("RESP: a string of 2 GB", Repeated::of(resp, b"*1\r\n$2000000000\r\n")),
        ("RESP: a million arguments", Repeated::of(resp, b"*1000000\r\n")),
        ("RESP: an endless line", Poured::of(resp, b"", &[b'x'; 1 << 14])),
        ("RESP: CR LF and invalid UTF-8 in a key", Repeated::of(resp, &throttle(b"\r\n\xff\xfe"))),
        ("HTTP: a body of 1 GB, announced", Poured::of(http, &announced, &[b' '; 1 << 16])),
        ("HTTP: an endless body", Poured::of(http, &chunked, &chunk)),
        ("HTTP: invalid UTF-8", Repeated::of(http, &check(b"{\"path\":\"\xff\xfe\"}"))),
        ("HTTP: CR LF in an identity", Repeated::of(http, &check(br#"{"identities":{"user":"a\r\nb"}}"#))),
        ("HTTP: 60,000 brackets", Repeated::of(http, &check(&[b'['; 60_000]))),
        // Many concurrent requests: ordinary, long, and invalid ones.
        ("HTTP: checks, 50 at once", Flood::of(http, &check(br#"{"ip":"203.0.113.9"}"#))),
        ("HTTP: checks of 60,000 bytes, 50 at once", Flood::of(http, &check(&long_check(60_000)))),
        ("HTTP: 60,000 brackets, 50 at once", Flood::of(http, &check(&[b'['; 60_000]))),
        ("HTTP: checks of 6,000 headers, 50 at once", Flood::of(http, &check(&many_headers(6_000)))),
        ("gRPC: invalid HTTP/2", Repeated::of(grpc, b"GET / HTTP/1.1\r\n\r\n")),
        ("gRPC: 60 header bombs of 1,024 streams", Held::of(grpc, 60, &header_bomb(1_024, 400))),
        ("gRPC: 995 connections of 128 streams", Held::of(grpc, 995, &header_bomb(128, 90))),
        ("HTTP: 400 batches, never read", Held::of(http, 400, &batch_of_a_thousand())),
        ("HTTP: 995 batches, half sent", Held::of(http, 995, &half_a_batch())),
        ("RESP: 995 commands, half sent", Held::of(resp, 995, &half_a_command())),
        ("HTTP: 990 idle connections", Held::of(http, 990, b"")),
        (
            "2,000 slow connections, on all",
            Box::new(Trickle { servers: [http, grpc, resp], streams: Vec::new(), at: 0 }),
        ),
    ]
}

fn post(field: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: tollgate\r\n{field}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A well-formed check of about this number of bytes.
fn long_check(bytes: usize) -> Vec<u8> {
    format!(r#"{{"path":"/{}"}}"#, "a".repeat(bytes)).into_bytes()
}

/// A check with this number of headers, as short as possible.
fn many_headers(count: usize) -> Vec<u8> {
    let headers: Vec<String> = (0..count).map(|at| format!(r#""{at}":"""#)).collect();
    format!(r#"{{"headers":{{{}}}}}"#, headers.join(",")).into_bytes()
}

/// The bytes of a connection that opens this number of streams and ends none, each with this number of one-byte
/// fields. The tests of the program do the same.
fn header_bomb(streams: u32, fields: usize) -> Vec<u8> {
    let path = b"/grpc.health.v1.Health/Watch";
    let mut out = Vec::new();
    greet(&mut out);
    for at in 0..streams {
        let mut block = vec![0x83, 0x86];
        if at == 0 {
            block.extend([0x44, u8::try_from(path.len()).unwrap()]);
            block.extend(path);
        } else {
            block.push(0xbe);
        }
        block.extend(std::iter::repeat_n(0x95, fields));
        write_frame(&mut out, HEADERS, END_HEADERS, 2 * at + 1, &block);
    }
    out
}

fn batch_of_a_thousand() -> Vec<u8> {
    let body = format!("[{}]", vec![r#"{"ip":"1.2.3.4"}"#; 1_000].join(","));
    let head = format!("POST /v1/check/batch HTTP/1.1\r\nhost: tollgate\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body.as_bytes()].concat()
}

fn half_a_batch() -> Vec<u8> {
    let head = b"POST /v1/check/batch HTTP/1.1\r\nhost: tollgate\r\ncontent-length: 1000000\r\n\r\n";
    [&head[..], &[b' '; 900_000]].concat()
}

fn half_a_command() -> Vec<u8> {
    let argument = format!("$15000\r\n{}\r\n", "x".repeat(15_000));
    format!("*6\r\n$11\r\nCL.THROTTLE\r\n{}", argument.repeat(4)).into_bytes()
}

struct Nothing;

impl Attack for Nothing {
    fn step(&mut self) {}
}

/// Sends the same bytes on one new connection after the other, some of which stay open.
struct Repeated {
    server: SocketAddr,
    bytes: Vec<u8>,
    open: VecDeque<TcpStream>,
}

impl Repeated {
    const OPEN: usize = 50;

    fn of(server: SocketAddr, bytes: &[u8]) -> Box<Repeated> {
        Box::new(Repeated { server, bytes: bytes.to_vec(), open: VecDeque::new() })
    }
}

impl Attack for Repeated {
    fn step(&mut self) {
        let Some(mut stream) = connect(self.server) else { return };
        let _ = stream.write(&self.bytes);
        self.open.push_back(stream);
        if self.open.len() > Repeated::OPEN {
            let mut oldest = self.open.pop_front();
            // Reads the response, so that the connection closes without a reset.
            let _ = oldest.as_mut().map(|stream| stream.read(&mut [0; 4096]));
        }
    }
}

/// Sends bytes until the service closes the connection, then starts again.
struct Poured {
    server: SocketAddr,
    head: Vec<u8>,
    more: Vec<u8>,
    stream: Option<TcpStream>,
}

impl Poured {
    fn of(server: SocketAddr, head: &[u8], more: &[u8]) -> Box<Poured> {
        Box::new(Poured { server, head: head.to_vec(), more: more.to_vec(), stream: None })
    }
}

impl Attack for Poured {
    fn step(&mut self) {
        match &mut self.stream {
            Some(stream) => {
                let is_full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
                if stream.write(&self.more).is_err_and(|error| !is_full(&error)) {
                    self.stream = None;
                }
            }
            None => {
                self.stream = connect(self.server);
                let _ = self.stream.as_mut().map(|stream| stream.write(&self.head));
            }
        }
    }
}

/// Sends the same bytes on many connections, again after each response.
struct Flood {
    server: SocketAddr,
    bytes: Vec<u8>,
    /// The connections, each with the number of bytes sent.
    streams: Vec<(TcpStream, usize)>,
}

impl Flood {
    const CONNECTIONS: usize = 50;

    fn of(server: SocketAddr, bytes: &[u8]) -> Box<Flood> {
        Box::new(Flood { server, bytes: bytes.to_vec(), streams: Vec::new() })
    }
}

impl Attack for Flood {
    fn step(&mut self) {
        let mut answer = [0; 4096];
        let bytes = &self.bytes;
        self.streams.retain_mut(|(stream, sent)| {
            if *sent == bytes.len() {
                // A response is short, and arrives in one read.
                match stream.read(&mut answer) {
                    Ok(0) => return false,
                    Ok(_) => *sent = 0,
                    Err(_) => return true,
                }
            }
            *sent += stream.write(&bytes[*sent..]).unwrap_or(0);
            true
        });
        while self.streams.len() < Flood::CONNECTIONS
            && let Some(stream) = connect(self.server)
        {
            self.streams.push((stream, 0));
        }
    }
}

/// Many connections that send the same bytes once, as far as the service reads them, read nothing, and stay open.
/// A closed connection is opened again.
struct Held {
    server: SocketAddr,
    bytes: Vec<u8>,
    connections: usize,
    /// The connections, each with the number of bytes sent.
    streams: Vec<(TcpStream, usize)>,
    at: usize,
}

impl Held {
    const EACH_STEP: usize = 20;

    fn of(server: SocketAddr, connections: usize, bytes: &[u8]) -> Box<Held> {
        Box::new(Held { server, bytes: bytes.to_vec(), connections, streams: Vec::new(), at: 0 })
    }
}

impl Attack for Held {
    fn step(&mut self) {
        for _ in 0..Held::EACH_STEP {
            if self.streams.len() < self.connections {
                self.streams.extend(connect(self.server).map(|stream| (stream, 0)));
            }
            self.at += 1;
            let at = self.at % self.streams.len().max(1);
            let Some((stream, sent)) = self.streams.get_mut(at) else { return };
            let is_full = |kind: ErrorKind| kind == ErrorKind::WouldBlock;
            let is_open = match stream.write(&self.bytes[*sent..]) {
                Ok(more) => {
                    *sent += more;
                    // The response is not read.
                    *sent < self.bytes.len()
                        || stream.peek(&mut [0]).map_or_else(|error| is_full(error.kind()), |count| count > 0)
                }
                Err(error) => is_full(error.kind()),
            };
            if !is_open {
                self.streams.swap_remove(at);
            }
        }
    }
}

/// Many connections that send single bytes slowly.
struct Trickle {
    servers: [SocketAddr; 3],
    streams: Vec<TcpStream>,
    at: usize,
}

impl Trickle {
    const CONNECTIONS: usize = 2_000;
    const EACH_STEP: usize = 20;
}

impl Attack for Trickle {
    fn step(&mut self) {
        for _ in 0..Trickle::EACH_STEP {
            self.at += 1;
            let server = self.servers[self.at % self.servers.len()];
            if self.streams.len() < Trickle::CONNECTIONS {
                self.streams.extend(connect(server));
                continue;
            }
            let at = self.at % self.streams.len();
            // Every protocol accepts this as the start of a message.
            if self.streams[at].write(b"P").is_err()
                && let Some(stream) = connect(server)
            {
                self.streams[at] = stream;
            }
        }
    }
}

/// A non-blocking connection.
fn connect(server: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.bind(&SocketAddr::from((HOSTILE, 0)).into()).ok()?;
    socket.connect(&server.into()).ok()?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}
