use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use pin_project_lite::pin_project;

use super::body::TollgateBody;
use super::guard::Guard;
use super::response::put_fields;
use crate::fields::HeaderFields;

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
                let polled = std::task::ready!(inner.poll(context));
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
