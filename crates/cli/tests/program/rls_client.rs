//! As much of gRPC over HTTP/2 as a test needs, so that it sees the very frames.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Nothing here takes long; a test that hangs should fail.
const PATIENCE: Duration = Duration::from_secs(20);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

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
        let mut greeting = PREFACE.to_vec();
        greeting.extend(frame(SETTINGS, 0, 0, &[]));
        // As much as there can be, so that no answer ever waits until we have room for it.
        greeting.extend(frame(WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes()));
        client.send(&greeting);
        client
    }

    /// Asks for an address, and returns whether more may be asked on this
    /// connection. Fails if a call that the service has not declined gets no answer.
    pub(crate) fn ask(&mut self) -> bool {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut call = frame(HEADERS, END_HEADERS, stream, &fields());
        call.extend(frame(DATA, END_STREAM, stream, &message()));
        self.send(&call);
        let mut has_message = false;
        loop {
            let (kind, flags, on, payload) = self.frame();
            match kind {
                SETTINGS if flags & ACK == 0 => self.send(&frame(SETTINGS, ACK, 0, &[])),
                PING if flags & ACK == 0 => self.send(&frame(PING, ACK, 0, &payload)),
                GOAWAY => {
                    self.stays = false;
                    let last = u32::from_be_bytes(payload[..4].try_into().unwrap());
                    // It says that it will not look at this call: any client may ask somebody else.
                    if last < stream {
                        return false;
                    }
                }
                RST_STREAM => panic!("a call was cut off"),
                DATA if on == stream => has_message = true,
                HEADERS if on == stream && flags & END_STREAM != 0 => {
                    assert!(has_message, "a call was answered with an error");
                    return self.stays;
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    fn frame(&mut self) -> (u8, u8, u32, Vec<u8>) {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).unwrap();
        (head[3], head[4], u32::from_be_bytes(head[5..].try_into().unwrap()), payload)
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
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
    let mut message = vec![0];
    message.extend(u32::try_from(ask.len()).unwrap().to_be_bytes());
    message.extend(ask);
    message
}

/// A member of a protobuf message that has a length.
fn member(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut member = vec![tag << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    member.extend(bytes);
    member
}
