//! The parts of gRPC over HTTP/2 that a load generator needs. A client library would take as long for a request as
//! the server.

use prost::Message;
use tollgate_testbed::http2::{
    DATA, END_HEADERS, END_STREAM, FrameHead, GOAWAY, HEADERS, RST_STREAM, acknowledge, greet, grpc_message,
    write_frame,
};

use crate::dialect::Dialect;

/// Sends the same call to Envoy's rate limit service repeatedly.
pub(crate) struct Rls {
    /// The header fields of the first request, and of later ones, which refer to the server's table.
    first_fields: Vec<u8>,
    message: Vec<u8>,
    next_stream: u32,
    /// The received part of an incomplete frame.
    received: Vec<u8>,
    /// Messages of responses that have not ended.
    messages: usize,
}

/// `:method POST`, `:scheme http`, and the four fields that the first request has put into the server's table.
const LATER_FIELDS: &[u8] = &[0x83, 0x86, 0xc1, 0xc0, 0xbf, 0xbe];

impl Rls {
    /// A descriptor of one entry: an address.
    pub(crate) fn of_address(address: usize) -> Rls {
        let entry = Pair { key: "remote_address".to_owned(), value: format!("203.0.113.{address}") };
        let ask = Ask { domain: "bench".to_owned(), descriptors: vec![Described { entries: vec![entry] }] };
        let mut fields = vec![0x83, 0x86];
        // Indexed names, added to the table; the last has a literal name.
        literal(&mut fields, &[0x44], "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
        literal(&mut fields, &[0x41], "tollgate");
        literal(&mut fields, &[0x5f], "application/grpc");
        literal(&mut fields, b"\x40\x02te", "trailers");
        let message = grpc_message(&ask.encode_to_vec());
        Rls { first_fields: fields, message, next_stream: 1, received: Vec::new(), messages: 0 }
    }

    /// Returns the number of responses that end in one frame.
    fn frame(&mut self, head: FrameHead, payload: &[u8], out: &mut Vec<u8>) -> usize {
        match head.kind {
            DATA => self.messages += usize::from(!payload.is_empty()),
            HEADERS if head.flags & END_STREAM != 0 => {
                // An error has no message before its end.
                assert!(self.messages > 0, "the server responds with an error");
                self.messages -= 1;
                return 1;
            }
            RST_STREAM | GOAWAY => panic!("the server reset the stream or closed the connection"),
            _ => acknowledge(out, head, payload),
        }
        0
    }
}

impl Dialect for Rls {
    fn greet(&mut self, out: &mut Vec<u8>) {
        greet(out);
    }

    fn write_request(&mut self, out: &mut Vec<u8>) {
        let fields = if self.next_stream == 1 { &self.first_fields } else { LATER_FIELDS };
        write_frame(out, HEADERS, END_HEADERS, self.next_stream, fields);
        write_frame(out, DATA, END_STREAM, self.next_stream, &self.message);
        self.next_stream += 2;
    }

    fn count_responses(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let mut received = std::mem::take(&mut self.received);
        received.extend_from_slice(bytes);
        let (mut answers, mut rest) = (0, received.as_slice());
        while let Some((head, behind)) = rest.split_first_chunk() {
            let head = FrameHead::read(*head);
            let Some((payload, next)) = behind.split_at_checked(head.length) else { break };
            answers += self.frame(head, payload, out);
            rest = next;
        }
        let ended = received.len() - rest.len();
        received.drain(..ended);
        self.received = received;
        answers
    }
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

/// The response of the service to a first request, built for each request as in the service.
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
