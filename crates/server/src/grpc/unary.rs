//! Unary gRPC calls over HTTP/2. tonic supports them too, with much else; this is the call that gateways make for
//! every request.

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

use super::calls::CallInFlight;
use super::limits::{CALL_TIMEOUT, MAX_MESSAGE_BYTES};
use crate::request_body::{BodyError, BodyLimits, CompleteBody, collect_body};

/// The prefix of a message: the compression flag and the length.
const PREFIX_BYTES: usize = 5;

/// The usual size of a response, with the fields for the client.
const RESPONSE_BYTES: usize = 256;

/// Messages up to this size need no reservation. Most have some hundred bytes, and there are many calls.
const UNRESERVED_BYTES: usize = 1 << 10;

pub(super) const LIMITS: BodyLimits = BodyLimits {
    max_bytes: PREFIX_BYTES + MAX_MESSAGE_BYTES,
    unreserved_bytes: UNRESERVED_BYTES,
    // An entry of a descriptor may have two bytes, and takes fifty once parsed.
    memory_factor: 16,
    timeout: CALL_TIMEOUT,
    announced_length: prefix_length,
};

/// For callers without a token. Such messages never need a reservation, so they take no memory from callers with a
/// token.
pub(super) const SMALL_LIMITS: BodyLimits = BodyLimits { max_bytes: UNRESERVED_BYTES, ..LIMITS };

fn prefix_length(begun: &[u8]) -> Option<usize> {
    let [_, length @ ..] = *begun.first_chunk::<PREFIX_BYTES>()?;
    PREFIX_BYTES.checked_add(u32::from_be_bytes(length) as usize)
}

/// Serves a call, unless its message does not arrive. `handle` appends the response.
pub(super) async fn unary<Req: Message + Default>(
    call: CallInFlight,
    limits: BodyLimits,
    body: Incoming,
    handle: impl AsyncFnOnce(Req, &mut Vec<u8>) -> Result<(), Status>,
) -> Response<GrpcBody> {
    let handled = async {
        let request = decode(&read_message(&call, limits, body).await?)?;
        let mut bytes = Vec::with_capacity(RESPONSE_BYTES);
        bytes.resize(PREFIX_BYTES, 0);
        handle(request, &mut bytes).await.map(|()| bytes)
    };
    match handled.await {
        Ok(bytes) => respond(bytes, call),
        Err(status) => failed(status),
    }
}

pub(super) fn failed(status: Status) -> Response<GrpcBody> {
    status.into_http::<Body>().map(GrpcBody::Right)
}

/// Reads a message with its prefix, within the timeout.
pub(super) async fn read_message(
    call: &CallInFlight,
    limits: BodyLimits,
    body: Incoming,
) -> Result<CompleteBody, Status> {
    let mut arriving = None;
    let reserve = async |bytes| {
        let (reserved, begun) = call.reserve(bytes).await?;
        arriving = Some(begun);
        Some(reserved)
    };
    let read = collect_body(body, limits, reserve).await;
    drop(arriving);
    read.map_err(|error| match error {
        BodyError::TooLarge => {
            Status::out_of_range(format!("a message has at most {} bytes", limits.max_bytes - PREFIX_BYTES))
        }
        BodyError::LengthExceeded => wrong_length(),
        BodyError::Unavailable => Status::resource_exhausted("no memory is available for the message now"),
        BodyError::TooSlow => Status::deadline_exceeded("the message did not arrive in time"),
        BodyError::Broken(cause) => Status::cancelled(cause),
    })
}

fn wrong_length() -> Status {
    Status::invalid_argument("the call must have one message of the announced length")
}

fn decode<Req: Message + Default>(bytes: &[u8]) -> Result<Req, Status> {
    let (prefix, message) =
        bytes.split_first_chunk::<PREFIX_BYTES>().ok_or_else(|| Status::invalid_argument("the call has no message"))?;
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        return Err(Status::unimplemented("compressed messages are not supported"));
    }
    if u32::from_be_bytes(length) as usize != message.len() {
        return Err(wrong_length());
    }
    Req::decode(message).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn respond(mut bytes: Vec<u8>, call: CallInFlight) -> Response<GrpcBody> {
    // A response is far shorter than 4 GiB.
    let length = u32::try_from(bytes.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    bytes[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    let mut response =
        Response::new(GrpcBody::Left(UnaryBody { rest: RemainingFrames::Message(bytes.into()), _call: call }));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The body of a response: a unary response, or one of tonic.
pub(super) type GrpcBody = Either<UnaryBody, Body>;

/// A unary response. The call is in flight until it is sent as far as flow control allows.
pub(super) struct UnaryBody {
    rest: RemainingFrames,
    _call: CallInFlight,
}

/// The frames that are not sent yet.
enum RemainingFrames {
    Message(Bytes),
    Status,
    Nothing,
}

impl HttpBody for UnaryBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (frame, left) = match std::mem::replace(&mut self.rest, RemainingFrames::Nothing) {
            RemainingFrames::Message(bytes) => (Some(Frame::data(bytes)), RemainingFrames::Status),
            RemainingFrames::Status => (Some(Frame::trailers(ok())), RemainingFrames::Nothing),
            RemainingFrames::Nothing => (None, RemainingFrames::Nothing),
        };
        self.rest = left;
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.rest, RemainingFrames::Nothing)
    }
}

fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}
