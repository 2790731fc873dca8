//! One message in and one out, as gRPC writes them into HTTP/2. tonic can do this
//! and much else; this is the one call that gateways make for every request.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Response, header};
use http_body::{Body as HttpBody, Frame};
use hyper::body::{Bytes, Incoming};
use prost::Message;
use tonic::Status;
use tonic::body::Body;

use super::calls::Call;
use super::limits::{CALL_WITHIN, MAX_MESSAGE_BYTES};
use crate::whole_body::{BodyLimits, NoBody, WholeBody, read_whole};

/// Before a message: whether it is compressed, and how long it is.
const PREFIX_BYTES: usize = 5;

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

/// Answers a call, unless its message does not arrive.
pub(super) async fn unary<Q, A, F>(
    call: Call,
    limits: BodyLimits,
    body: Incoming,
    answer: impl FnOnce(Q) -> F,
) -> Response<Body>
where
    Q: Message + Default,
    A: Message,
    F: Future<Output = Result<A, Status>>,
{
    let message = match read_message(&call, limits, body).await {
        Ok(message) => message,
        Err(status) => return status.into_http(),
    };
    let question = match decode(&message) {
        Ok(question) => question,
        Err(status) => return status.into_http(),
    };
    match answer(question).await {
        Ok(answer) => respond(&answer, call),
        Err(status) => status.into_http(),
    }
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

fn respond(answer: &impl Message, call: Call) -> Response<Body> {
    let length = answer.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + length);
    bytes.push(0);
    // An answer is far shorter than that.
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    answer.encode_raw(&mut bytes);
    let mut response = Response::new(Body::new(Answer { rest: Rest::Message(bytes.into()), _call: call }));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// An answer. The call is under way until it has been sent as far as the client lets it.
struct Answer {
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
        let (frame, rest) = match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Message(bytes) => (Some(Frame::data(bytes)), Rest::Status),
            Rest::Status => (Some(Frame::trailers(ok())), Rest::Nothing),
            Rest::Nothing => (None, Rest::Nothing),
        };
        self.rest = rest;
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
