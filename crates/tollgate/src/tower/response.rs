//! The response of a service behind a limiter: its future, the fields that are put into it, and its body.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::guard::Guard;
use crate::fields::{Field, HeaderFields};

/// What a request is under while the service works on it.
pub(super) struct Under {
    /// What its response is to say.
    pub(super) fields: HeaderFields,
    /// Whether a layer further out has let the request pass.
    pub(super) is_inner: bool,
    pub(super) guard: Option<Box<Guard>>,
}

type Later<B, E> = Pin<Box<dyn Future<Output = Result<Response<TollgateBody<B>>, E>> + Send>>;

pin_project! {
    /// The response of a service behind a limiter.
    pub struct ResponseFuture<F, B, E> {
        #[pin]
        state: State<F, B, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B, E> {
        Calling { #[pin] inner: F, under: Option<Under> },
        Ready { response: Option<Response<TollgateBody<B>>> },
        Later { future: Later<B, E> },
    }
}

impl<F, B, E> ResponseFuture<F, B, E> {
    pub(super) fn calling(inner: F, under: Under) -> ResponseFuture<F, B, E> {
        ResponseFuture { state: State::Calling { inner, under: Some(under) } }
    }

    pub(super) fn ready(response: Response<TollgateBody<B>>) -> ResponseFuture<F, B, E> {
        ResponseFuture { state: State::Ready { response: Some(response) } }
    }

    pub(super) fn later(
        future: impl Future<Output = Result<Response<TollgateBody<B>>, E>> + Send + 'static,
    ) -> ResponseFuture<F, B, E> {
        ResponseFuture { state: State::Later { future: Box::pin(future) } }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<TollgateBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Calling { inner, under } => {
                if let Some(Under { guard: Some(guard), .. }) = under {
                    guard.keep(context);
                }
                let polled = ready!(inner.poll(context));
                let under = under.take();
                Poll::Ready(polled.map(|response| told(response, under)))
            }
            StateProjection::Ready { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => panic!("a future that has ended is polled again"),
            },
            StateProjection::Later { future } => future.as_mut().poll(context),
        }
    }
}

fn told<B>(mut response: Response<B>, under: Option<Under>) -> Response<TollgateBody<B>> {
    let mut held = None;
    if let Some(Under { fields, is_inner, mut guard }) = under {
        if let Some(guard) = &mut guard {
            guard.settle_by(response.headers());
        }
        put_fields(fields, is_inner, &mut response);
        held = guard;
    }
    response.map(|body| TollgateBody::passed(body, held))
}

impl<F, B, E> fmt::Debug for ResponseFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// The fields that tell of one limit only.
const X_FIELDS: [Field; 3] = [Field::XRateLimitLimit, Field::XRateLimitRemaining, Field::XRateLimitReset];

/// Left in a response for a layer further out, so that it adds to the fields and does not replace them.
#[derive(Clone, Copy)]
struct HasFields;

/// Puts the fields of a verdict into a response; where a layer further in has
/// told something already, both are told. `is_inner` says whether a layer
/// further out will add to them.
pub(super) fn put_fields<B>(fields: HeaderFields, is_inner: bool, response: &mut Response<B>) {
    let told_before = response.extensions().get::<HasFields>().is_some();
    if is_inner {
        response.extensions_mut().insert(HasFields);
    }
    let headers = response.headers_mut();
    if told_before { add_fields(fields.into_map(), headers) } else { fields.put_into(headers) }
}

fn add_fields(fields: HeaderMap, headers: &mut HeaderMap) {
    let x_fields = X_FIELDS.map(Field::header_name);
    let replaces_x_fields = is_tighter(&fields, headers);
    if replaces_x_fields {
        // They are about one limit: one of them that we have not must not stay beside ours.
        x_fields.iter().for_each(|name| drop(headers.remove(name)));
    }
    for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name?, value))) {
        match headers.get(&name) {
            // They were removed where ours are told.
            None if x_fields.contains(&name) && !replaces_x_fields => {}
            None => drop(headers.insert(name, value)),
            // A layer that refuses has not called what is further in, so there is nothing to join.
            Some(_) if x_fields.contains(&name) || name == header::RETRY_AFTER => {}
            Some(known) => {
                let both = [known.as_bytes(), value.as_bytes()].join(&b", "[..]);
                drop(HeaderValue::from_bytes(&both).map(|both| headers.insert(name, both)));
            }
        }
    }
}

/// Whether less remains than what a layer further in has told, if it has told anything.
fn is_tighter(fields: &HeaderMap, headers: &HeaderMap) -> bool {
    let remaining = |headers: &HeaderMap| -> Option<u64> {
        headers.get(Field::XRateLimitRemaining.header_name())?.to_str().ok()?.parse().ok()
    };
    remaining(fields).is_some_and(|ours| remaining(headers).is_none_or(|theirs| ours < theirs))
}

pin_project! {
    /// The body of a response: the service's own, or what a refusal says.
    ///
    /// While a service's body is under way it holds what the request was
    /// charged; permits are let go of when it has ended or is dropped.
    pub struct TollgateBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Passed { #[pin] body: B, guard: Option<Box<Guard>> },
        Refused { text: Option<Bytes> },
    }
}

impl<B> TollgateBody<B> {
    pub(super) fn passed(body: B, guard: Option<Box<Guard>>) -> TollgateBody<B> {
        TollgateBody { kind: Kind::Passed { body, guard } }
    }

    pub(super) fn refused(text: Bytes) -> TollgateBody<B> {
        TollgateBody { kind: Kind::Refused { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

impl<B: Body<Data = Bytes>> Body for TollgateBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Passed { body, guard } => {
                if let Some(guard) = guard {
                    guard.keep(context);
                }
                let polled = body.poll_frame(context);
                if let Poll::Ready(None | Some(Err(_))) = polled {
                    *guard = None;
                }
                polled
            }
            KindProjection::Refused { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Passed { body, .. } => body.is_end_stream(),
            Kind::Refused { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Passed { body, .. } => body.size_hint(),
            Kind::Refused { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}

/// A refusal without words.
impl<B> Default for TollgateBody<B> {
    fn default() -> TollgateBody<B> {
        TollgateBody::refused(Bytes::new())
    }
}

impl<B> fmt::Debug for TollgateBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Passed { .. } => "passed",
            Kind::Refused { .. } => "refused",
        };
        f.debug_tuple("TollgateBody").field(&kind).finish()
    }
}
