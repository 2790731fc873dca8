use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::guard::Guard;

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
