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

/// What the layer keeps of an allowed request until the service has responded.
pub(super) struct Pending {
    /// The fields of its response.
    pub(super) fields: HeaderFields,
    /// Whether an outer layer has let the request pass.
    pub(super) is_inner: bool,
    pub(super) guard: Option<Box<Guard>>,
}

type Later<B, E> = Pin<Box<dyn Future<Output = Result<Response<TollgateBody<B>>, E>> + Send>>;

pin_project! {
    /// The response of a rate-limited service.
    pub struct ResponseFuture<F, B, E> {
        #[pin]
        state: State<F, B, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B, E> {
        Calling { #[pin] inner: F, pending: Option<Pending> },
        Ready { response: Option<Response<TollgateBody<B>>> },
        Later { future: Later<B, E> },
    }
}

impl<F, B, E> ResponseFuture<F, B, E> {
    pub(super) fn calling(inner: F, pending: Pending) -> ResponseFuture<F, B, E> {
        ResponseFuture { state: State::Calling { inner, pending: Some(pending) } }
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
            StateProjection::Calling { inner, pending } => {
                if let Some(Pending { guard: Some(guard), .. }) = pending {
                    guard.renew_leases(context);
                }
                let polled = ready!(inner.poll(context));
                let pending = pending.take();
                Poll::Ready(polled.map(|response| with_fields(response, pending)))
            }
            StateProjection::Ready { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => panic!("the response future was polled after it completed"),
            },
            StateProjection::Later { future } => future.as_mut().poll(context),
        }
    }
}

fn with_fields<B>(mut response: Response<B>, pending: Option<Pending>) -> Response<TollgateBody<B>> {
    let mut held = None;
    if let Some(Pending { fields, is_inner, mut guard }) = pending {
        if let Some(guard) = &mut guard {
            guard.read_cost(response.headers());
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

/// The fields that describe one limit only.
const X_FIELDS: [Field; 3] = [Field::XRateLimitLimit, Field::XRateLimitRemaining, Field::XRateLimitReset];

/// Marks a response that carries the fields of an inner layer: the outer layer adds to them and does not replace them.
#[derive(Clone, Copy)]
struct HasFields;

/// Puts the fields of a verdict into a response. If an inner layer has put its fields there, both are sent. `is_inner`
/// says whether an outer layer will add to them.
pub(super) fn put_fields<B>(fields: HeaderFields, is_inner: bool, response: &mut Response<B>) {
    let has_fields = response.extensions().get::<HasFields>().is_some();
    if is_inner {
        response.extensions_mut().insert(HasFields);
    }
    let headers = response.headers_mut();
    if has_fields { add_fields(fields.into_map(), headers) } else { fields.put_into(headers) }
}

fn add_fields(fields: HeaderMap, headers: &mut HeaderMap) {
    let x_fields = X_FIELDS.map(Field::header_name);
    let replaces_x_fields = is_tighter(&fields, headers);
    if replaces_x_fields {
        // They describe one limit: the inner layer's must not stay beside ours.
        x_fields.iter().for_each(|name| drop(headers.remove(name)));
    }
    for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name?, value))) {
        match headers.get(&name) {
            // Ours describe a limit that is not the tightest.
            None if x_fields.contains(&name) && !replaces_x_fields => {}
            None => drop(headers.insert(name, value)),
            // An outer layer that refuses has not called the inner one, so there is nothing to join.
            Some(_) if x_fields.contains(&name) || name == header::RETRY_AFTER => {}
            Some(known) => {
                let both = [known.as_bytes(), value.as_bytes()].join(&b", "[..]);
                drop(HeaderValue::from_bytes(&both).map(|both| headers.insert(name, both)));
            }
        }
    }
}

/// Whether less remains than under the inner layer's limit, if its fields are there.
fn is_tighter(fields: &HeaderMap, headers: &HeaderMap) -> bool {
    let remaining = |headers: &HeaderMap| -> Option<u64> {
        headers.get(Field::XRateLimitRemaining.header_name())?.to_str().ok()?.parse().ok()
    };
    remaining(fields).is_some_and(|ours| remaining(headers).is_none_or(|theirs| ours < theirs))
}

pin_project! {
    /// The body of a response: the service's own, or that of a refusal.
    ///
    /// The service's body holds the permits of its request, and releases them when it has ended or is dropped.
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
        Custom { body: BoxedBody },
    }
}

impl<B> TollgateBody<B> {
    pub(super) fn passed(body: B, guard: Option<Box<Guard>>) -> TollgateBody<B> {
        TollgateBody { kind: Kind::Passed { body, guard } }
    }

    pub(super) fn refused(text: impl Into<Bytes>) -> TollgateBody<B> {
        TollgateBody { kind: Kind::Refused { text: Some(text.into()).filter(|text| !text.is_empty()) } }
    }

    pub(super) fn custom(body: BoxedBody) -> TollgateBody<B> {
        TollgateBody { kind: Kind::Custom { body } }
    }
}

impl<B> Body for TollgateBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().kind.project() {
            KindProjection::Passed { body, guard } => {
                if let Some(guard) = guard {
                    guard.renew_leases(context);
                }
                let polled = body.poll_frame(context).map_err(Into::into);
                if let Poll::Ready(None | Some(Err(_))) = polled {
                    *guard = None;
                }
                polled
            }
            KindProjection::Refused { text } => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            KindProjection::Custom { body } => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Passed { body, .. } => body.is_end_stream(),
            Kind::Refused { text } => text.is_none(),
            Kind::Custom { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Passed { body, .. } => body.size_hint(),
            Kind::Refused { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Kind::Custom { body } => body.size_hint(),
        }
    }
}

/// An empty body.
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
            Kind::Custom { .. } => "custom",
        };
        f.debug_tuple("TollgateBody").field(&kind).finish()
    }
}

/// An error of any body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response that the application built for a refused request.
pub(super) type BoxedBody = Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>;

pin_project! {
    /// A body whose errors are boxed.
    pub(super) struct MapError<B> {
        #[pin]
        pub(super) body: B,
    }
}

impl<B> Body for MapError<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.project().body.poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
