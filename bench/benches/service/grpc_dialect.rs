//! As much of gRPC over HTTP/2 as a load needs, frame by frame. A client library
//! would take as long for a request as the server.

use prost::Message;

use crate::dialect::Dialect;

/// Asks Envoy's rate limit service the same again and again.
pub(crate) struct Rls {
    /// The fields of a request, and how they are written once the server has seen them.
    first_fields: Vec<u8>,
    message: Vec<u8>,
    next_stream: u32,
    /// What has come of a frame that has not ended.
    heard: Vec<u8>,
    /// Messages that came and whose answers have not ended.
    messages: usize,
}

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
const FRAME_HEAD: usize = 9;

/// `:method POST`, `:scheme http`, and the four fields that the first request has put into the server's table.
const LATER_FIELDS: &[u8] = &[0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe];

impl Rls {
    /// A descriptor of one entry: an address.
    pub(crate) fn of_address(address: usize) -> Rls {
        let entry = Pair { key: "remote_address".to_owned(), value: format!("203.0.113.{address}") };
        let ask = Ask { domain: "bench".to_owned(), descriptors: vec![Described { entries: vec![entry] }] };
        let mut fields = vec![0x83, 0x86];
        // Of a known name, by its number, and remembered; the last has a name of its own.
        literal(&mut fields, &[0x44], "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
        literal(&mut fields, &[0x41], "tollgate");
        literal(&mut fields, &[0x5f], "application/grpc");
        literal(&mut fields, b"\x40\x02te", "trailers");
        let encoded = ask.encode_to_vec();
        let mut message = vec![0];
        message.extend(u32::try_from(encoded.len()).unwrap().to_be_bytes());
        message.extend(encoded);
        Rls { first_fields: fields, message, next_stream: 1, heard: Vec::new(), messages: 0 }
    }

    /// How many answers end in one frame.
    fn frame(&mut self, kind: u8, flags: u8, payload: &[u8], said: &mut Vec<u8>) -> usize {
        match kind {
            DATA => self.messages += usize::from(!payload.is_empty()),
            HEADERS if flags & END_STREAM != 0 => {
                // An error has no message before its end.
                assert!(self.messages > 0, "the server answers with an error");
                self.messages -= 1;
                return 1;
            }
            SETTINGS if flags & ACK == 0 => frame(said, SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(said, PING, ACK, 0, payload),
            RST_STREAM | GOAWAY => panic!("the server gives up"),
            _ => {}
        }
        0
    }
}

impl Dialect for Rls {
    fn greet(&mut self, said: &mut Vec<u8>) {
        said.extend_from_slice(PREFACE);
        frame(said, SETTINGS, 0, 0, &[]);
        // As much as there can be, so that no answer ever waits for us.
        frame(said, WINDOW_UPDATE, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes());
    }

    fn ask(&mut self, said: &mut Vec<u8>) {
        let fields = if self.next_stream == 1 { &self.first_fields } else { LATER_FIELDS };
        frame(said, HEADERS, END_HEADERS, self.next_stream, fields);
        frame(said, DATA, END_STREAM, self.next_stream, &self.message);
        self.next_stream += 2;
    }

    fn hear(&mut self, bytes: &[u8], said: &mut Vec<u8>) -> usize {
        let mut heard = std::mem::take(&mut self.heard);
        heard.extend_from_slice(bytes);
        let (mut answers, mut rest) = (0, heard.as_slice());
        while let Some(head) = rest.get(..FRAME_HEAD) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = rest.get(FRAME_HEAD..FRAME_HEAD + length) else { break };
            answers += self.frame(head[3], head[4], payload, said);
            rest = &rest[FRAME_HEAD + length..];
        }
        let ended = heard.len() - rest.len();
        heard.drain(..ended);
        self.heard = heard;
        answers
    }
}

fn frame(said: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    said.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    said.extend_from_slice(&stream.to_be_bytes());
    said.extend_from_slice(payload);
}

fn literal(fields: &mut Vec<u8>, name: &[u8], value: &str) {
    fields.extend_from_slice(name);
    // Longer than 127 would take another byte.
    fields.push(u8::try_from(value.len()).unwrap());
    fields.extend_from_slice(value.as_bytes());
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ask {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<Described>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Described {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pair {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<Status>,
    #[prost(message, repeated, tag = "3")]
    response_headers_to_add: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(message, optional, tag = "2")]
    current_limit: Option<PerUnit>,
    #[prost(uint32, tag = "3")]
    limit_remaining: u32,
}

#[derive(Clone, PartialEq, Message)]
struct PerUnit {
    #[prost(uint32, tag = "1")]
    requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    unit: i32,
    #[prost(string, tag = "3")]
    name: String,
}

/// What the service answers to a first request, made anew as a service has to.
pub(crate) fn one_answer() -> Answer {
    let field = |key: &str, value: &str| Pair { key: key.to_owned(), value: value.to_owned() };
    let limit = PerUnit { requests_per_unit: 1_000_000, unit: 1, name: "per-ip".to_owned() };
    Answer {
        overall_code: 1,
        statuses: vec![Status { code: 1, current_limit: Some(limit), limit_remaining: 1_999_999 }],
        response_headers_to_add: vec![
            field("ratelimit-policy", "\"per-ip\";q=2000000;w=2"),
            field("ratelimit", "\"per-ip\";r=1999999;t=1"),
            field("x-ratelimit-limit", "2000000"),
            field("x-ratelimit-remaining", "1999999"),
            field("x-ratelimit-reset", "1700000001"),
        ],
    }
}
