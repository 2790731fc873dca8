//! One message in and one out, as gRPC writes them into HTTP/2. tonic can do this
//! and much else; this is the one call that gateways make for every request.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Response, header};
use http_body::{Body as HttpBody, Frame};
use http_body_util::Either;
use hyper::body::{Bytes, Incoming};
use prost::Message;
use tonic::Status;
use tonic::body::Body;

use super::calls::Call;
use super::limits::{CALL_WITHIN, MAX_MESSAGE_BYTES};
use crate::whole_body::{BodyLimits, NoBody, WholeBody, read_whole};

/// Before a message: whether it is compressed, and how long it is.
const PREFIX_BYTES: usize = 5;

/// What an answer about a few descriptors takes, with the fields for the client.
const ANSWER_BYTES: usize = 256;

/// Most messages have some hundred bytes, and there are many calls: only so much is read of each without asking.
const FREE_BYTES: usize = 1 << 10;

pub(super) const LIMITS: BodyLimits = BodyLimits {
    max_bytes: PREFIX_BYTES + MAX_MESSAGE_BYTES,
    free_bytes: FREE_BYTES,
    // A descriptor's entry may have two bytes, and takes fifty once it is understood.
    lengths_held: 16,
    at_most: CALL_WITHIN,
    length_by: length_by_prefix,
};

/// For messages of callers without a token. They never ask for room, so that they take none from callers who have one.
pub(super) const SMALL_LIMITS: BodyLimits = BodyLimits { max_bytes: FREE_BYTES, ..LIMITS };

fn length_by_prefix(begun: &[u8]) -> Option<usize> {
    let [_, length @ ..] = *begun.first_chunk::<PREFIX_BYTES>()?;
    PREFIX_BYTES.checked_add(u32::from_be_bytes(length) as usize)
}

/// Answers a call, unless its message does not arrive. `answer` writes the answer behind what is there.
pub(super) async fn unary<Q: Message + Default>(
    call: Call,
    limits: BodyLimits,
    body: Incoming,
    answer: impl AsyncFnOnce(Q, &mut Vec<u8>) -> Result<(), Status>,
) -> Response<GrpcBody> {
    let answered = async {
        let question = decode(&read_message(&call, limits, body).await?)?;
        let mut bytes = Vec::with_capacity(ANSWER_BYTES);
        bytes.resize(PREFIX_BYTES, 0);
        answer(question, &mut bytes).await.map(|()| bytes)
    };
    match answered.await {
        Ok(bytes) => respond(bytes, call),
        Err(status) => failed(status),
    }
}

pub(super) fn failed(status: Status) -> Response<GrpcBody> {
    status.into_http::<Body>().map(GrpcBody::Right)
}

/// A message with what stands before it, which came in time.
pub(super) async fn read_message(call: &Call, limits: BodyLimits, body: Incoming) -> Result<WholeBody, Status> {
    let mut arriving = None;
    let reserve = async |bytes| {
        let (reserved, begun) = call.reserve(bytes).await?;
        arriving = Some(begun);
        Some(reserved)
    };
    let read = read_whole(body, limits, reserve).await;
    drop(arriving);
    read.map_err(|error| match error {
        NoBody::TooLarge => {
            Status::out_of_range(format!("a message has at most {} bytes", limits.max_bytes - PREFIX_BYTES))
        }
        NoBody::LongerThanItSays => wrong_length(),
        NoBody::NoRoom => Status::resource_exhausted("there is no room for the message now"),
        NoBody::TooSlow => Status::deadline_exceeded("the message did not arrive in time"),
        NoBody::Broken(why) => Status::cancelled(why),
    })
}

fn wrong_length() -> Status {
    Status::invalid_argument("the call must have one message of the length that it says")
}

fn decode<Q: Message + Default>(bytes: &[u8]) -> Result<Q, Status> {
    let (prefix, message) =
        bytes.split_first_chunk::<PREFIX_BYTES>().ok_or_else(|| Status::invalid_argument("the call has no message"))?;
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        return Err(Status::unimplemented("compressed messages are not understood"));
    }
    if u32::from_be_bytes(length) as usize != message.len() {
        return Err(wrong_length());
    }
    Q::decode(message).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn respond(mut bytes: Vec<u8>, call: Call) -> Response<GrpcBody> {
    // An answer is far shorter than that.
    let length = u32::try_from(bytes.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    bytes[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    let mut response = Response::new(GrpcBody::Left(Answer { rest: Rest::Message(bytes.into()), _call: call }));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The body of a response: an answer of ours, or what tonic makes.
pub(super) type GrpcBody = Either<Answer, Body>;

/// An answer. The call is in flight until it has been sent as far as the client lets it.
pub(super) struct Answer {
    rest: Rest,
    _call: Call,
}

/// What is still to be sent of an answer.
enum Rest {
    Message(Bytes),
    Status,
    Nothing,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (frame, left) = match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Message(bytes) => (Some(Frame::data(bytes)), Rest::Status),
            Rest::Status => (Some(Frame::trailers(ok())), Rest::Nothing),
            Rest::Nothing => (None, Rest::Nothing),
        };
        self.rest = left;
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.rest, Rest::Nothing)
    }
}

fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}
