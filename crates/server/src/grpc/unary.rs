//! One message in and one out, as gRPC writes them into HTTP/2. tonic can do this
//! and much else; this is the one call that gateways make for every request.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::{Body as HttpBody, Frame};
use hyper::body::{Bytes, Incoming};
use prost::Message;
use tonic::Status;
use tonic::body::Body;

use super::limits::{CALL_WITHIN, MAX_MESSAGE_BYTES};
use crate::whole_body::{NoBody, read_whole};
use crate::within::within;

/// Before a message: whether it is compressed, and how long it is.
const PREFIX_BYTES: usize = 5;

/// Answers a call, unless its message does not arrive.
pub(super) async fn unary<Q, A, F>(request: Request<Incoming>, answer: impl FnOnce(Q) -> F) -> Response<Body>
where
    Q: Message + Default,
    A: Message,
    F: Future<Output = Result<A, Status>>,
{
    let question = match within(CALL_WITHIN, pin!(read(request.into_body()))).await {
        Some(Ok(question)) => question,
        Some(Err(status)) => return status.into_http(),
        None => return Status::deadline_exceeded("the message did not arrive in time").into_http(),
    };
    match answer(question).await {
        Ok(answer) => respond(&answer),
        Err(status) => status.into_http(),
    }
}

async fn read<Q: Message + Default>(body: Incoming) -> Result<Q, Status> {
    let bytes = read_whole(body, PREFIX_BYTES + MAX_MESSAGE_BYTES).await.map_err(|error| match error {
        NoBody::TooLarge => Status::out_of_range(format!("a message has at most {MAX_MESSAGE_BYTES} bytes")),
        NoBody::Broken(why) => Status::cancelled(why),
    })?;
    let (prefix, message) =
        bytes.split_first_chunk::<PREFIX_BYTES>().ok_or_else(|| Status::invalid_argument("the call has no message"))?;
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        return Err(Status::unimplemented("compressed messages are not understood"));
    }
    if u32::from_be_bytes(length) as usize != message.len() {
        return Err(Status::invalid_argument("the call must have one message of the length that it says"));
    }
    Q::decode(message).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn respond(answer: &impl Message) -> Response<Body> {
    let length = answer.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + length);
    bytes.push(0);
    // An answer is far shorter than that.
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    answer.encode_raw(&mut bytes);
    let mut response = Response::new(Body::new(Answer::Message(bytes.into())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// What is still to be sent of an answer.
enum Answer {
    Message(Bytes),
    Status,
    Nothing,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (frame, rest) = match std::mem::replace(&mut *self, Answer::Nothing) {
            Answer::Message(bytes) => (Some(Frame::data(bytes)), Answer::Status),
            Answer::Status => (Some(Frame::trailers(ok())), Answer::Nothing),
            Answer::Nothing => (None, Answer::Nothing),
        };
        *self = rest;
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Answer::Nothing)
    }
}

fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}
