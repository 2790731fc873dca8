//! A minimal gRPC client that exposes the HTTP/2 frames to tests.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tollgate_testbed::http2::{
    DATA, END_HEADERS, END_STREAM, FrameHead, GOAWAY, HEADERS, RST_STREAM, acknowledge, greet, grpc_message,
    write_frame,
};

/// A test that hangs fails after this time.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that calls Envoy's rate limit service, one call at a time.
pub(crate) struct RlsClient {
    stream: BufReader<TcpStream>,
    next_stream: u32,
    is_open: bool,
}

impl RlsClient {
    pub(crate) fn open(server: SocketAddr) -> RlsClient {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = RlsClient { stream: BufReader::new(stream), next_stream: 1, is_open: true };
        let mut greeting = Vec::new();
        greet(&mut greeting);
        client.send(&greeting);
        client
    }

    /// Checks an address, and returns whether the connection accepts more calls. Panics if a call that the service has
    /// not declined gets no response.
    pub(crate) fn call(&mut self) -> bool {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut frames = Vec::new();
        write_frame(&mut frames, HEADERS, END_HEADERS, stream, &fields());
        write_frame(&mut frames, DATA, END_STREAM, stream, &message());
        self.send(&frames);
        let mut has_message = false;
        loop {
            let (head, payload) = self.frame();
            match head.kind {
                GOAWAY => {
                    self.is_open = false;
                    let last = u32::from_be_bytes(payload[..4].try_into().unwrap());
                    // The service has not processed this call: a client may retry it elsewhere.
                    if last < stream {
                        return false;
                    }
                }
                RST_STREAM => panic!("a call was cut off"),
                DATA if head.stream == stream => has_message = true,
                HEADERS if head.stream == stream && head.flags & END_STREAM != 0 => {
                    assert!(has_message, "a call was answered with an error");
                    return self.is_open;
                }
                _ => {
                    let mut frames = Vec::new();
                    acknowledge(&mut frames, head, &payload);
                    self.send(&frames);
                }
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    fn frame(&mut self) -> (FrameHead, Vec<u8>) {
        let mut head = [0; FrameHead::BYTES];
        self.stream.read_exact(&mut head).unwrap();
        let head = FrameHead::read(head);
        let mut payload = vec![0; head.length];
        self.stream.read_exact(&mut payload).unwrap();
        (head, payload)
    }
}

/// The header fields of a call. None enters the dynamic table, so that every call sends all of them.
fn fields() -> Vec<u8> {
    // `:method POST` and `:scheme http` are indexed; of the other fields only the names, except `te`.
    let mut fields = vec![0x83, 0x86];
    for (name, value) in [
        (&b"\x04"[..], "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
        (b"\x01", "tollgate"),
        (b"\x0f\x10", "application/grpc"),
        (b"\x00\x02te", "trailers"),
    ] {
        fields.extend(name);
        fields.push(u8::try_from(value.len()).unwrap());
        fields.extend(value.bytes());
    }
    fields
}

/// A request with a domain and a descriptor with one entry, an address.
fn message() -> Vec<u8> {
    let entry = [member(1, b"remote_address"), member(2, b"203.0.113.9")].concat();
    let request = [member(1, b"domain"), member(2, &member(1, &entry))].concat();
    grpc_message(&request)
}

/// A length-delimited field of a protobuf message.
fn member(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut member = vec![tag << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    member.extend(bytes);
    member
}
