use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response.
    #[project = Projected]
    pub(crate) enum ResponseBody {
        /// All of it, which needs no pointer to somebody who makes it.
        Whole { bytes: Bytes },
        /// What the router's handlers make.
        Routed { #[pin] body: Body },
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.project() {
            Projected::Whole { bytes } if bytes.is_empty() => Poll::Ready(None),
            Projected::Whole { bytes } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Projected::Routed { body } => body.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Whole { bytes } => bytes.is_empty(),
            ResponseBody::Routed { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole { bytes } => SizeHint::with_exact(bytes.len() as u64),
            ResponseBody::Routed { body } => body.size_hint(),
        }
    }
}

impl From<Vec<u8>> for ResponseBody {
    fn from(bytes: Vec<u8>) -> ResponseBody {
        ResponseBody::Whole { bytes: bytes.into() }
    }
}

impl From<Body> for ResponseBody {
    fn from(body: Body) -> ResponseBody {
        ResponseBody::Routed { body }
    }
}

/// For handlers of the router, whose bodies are all of one kind.
impl From<ResponseBody> for Body {
    fn from(body: ResponseBody) -> Body {
        match body {
            ResponseBody::Whole { bytes } => Body::from(bytes),
            ResponseBody::Routed { body } => body,
        }
    }
}
