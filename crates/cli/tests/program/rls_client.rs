//! As much of gRPC over HTTP/2 as a test needs, so that it sees the very frames.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tollgate_testbed::http2::{
    DATA, END_HEADERS, END_STREAM, FrameHead, GOAWAY, HEADERS, RST_STREAM, acknowledge, greet, grpc_message,
    write_frame,
};

/// Nothing here takes long; a test that hangs should fail.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that asks Envoy's rate limit service, one call at a time.
pub(crate) struct RlsClient {
    stream: BufReader<TcpStream>,
    next_stream: u32,
    stays: bool,
}

impl RlsClient {
    pub(crate) fn open(server: SocketAddr) -> RlsClient {
        let stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut client = RlsClient { stream: BufReader::new(stream), next_stream: 1, stays: true };
        let mut greeting = Vec::new();
        greet(&mut greeting);
        client.send(&greeting);
        client
    }

    /// Asks for an address, and returns whether more may be asked on this
    /// connection. Fails if a call that the service has not declined gets no answer.
    pub(crate) fn ask(&mut self) -> bool {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut call = Vec::new();
        write_frame(&mut call, HEADERS, END_HEADERS, stream, &fields());
        write_frame(&mut call, DATA, END_STREAM, stream, &message());
        self.send(&call);
        let mut has_message = false;
        loop {
            let (head, payload) = self.frame();
            match head.kind {
                GOAWAY => {
                    self.stays = false;
                    let last = u32::from_be_bytes(payload[..4].try_into().unwrap());
                    // It says that it will not look at this call: any client may ask somebody else.
                    if last < stream {
                        return false;
                    }
                }
                RST_STREAM => panic!("a call was cut off"),
                DATA if head.stream == stream => has_message = true,
                HEADERS if head.stream == stream && head.flags & END_STREAM != 0 => {
                    assert!(has_message, "a call was answered with an error");
                    return self.stays;
                }
                _ => {
                    let mut answer = Vec::new();
                    acknowledge(&mut answer, head, &payload);
                    self.send(&answer);
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

/// The fields of a call. None is remembered, so that every call says all of them.
fn fields() -> Vec<u8> {
    // `:method POST` and `:scheme http` have numbers; of the others the name has one, but for the last.
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

/// A domain, and a descriptor with one entry: an address.
fn message() -> Vec<u8> {
    let entry = [member(1, b"remote_address"), member(2, b"203.0.113.9")].concat();
    let ask = [member(1, b"domain"), member(2, &member(1, &entry))].concat();
    grpc_message(&ask)
}

/// A member of a protobuf message that has a length.
fn member(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut member = vec![tag << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    member.extend(bytes);
    member
}
