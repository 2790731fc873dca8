use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body as HttpBody, Frame};
use hyper::body::Bytes;
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;

use super::calls::OpenCall;

pin_project! {
    /// The answers of a call that stays open. It has its place until they end.
    pub(super) struct HeldBody {
        #[pin]
        body: Body,
        #[pin]
        at_most: Option<Sleep>,
        _open: OpenCall,
    }
}

impl HeldBody {
    /// For as long as the client wishes, or no longer than so long.
    pub(super) fn holding(body: Body, open: OpenCall, at_most: Option<Duration>) -> Body {
        Body::new(HeldBody { body, at_most: at_most.map(tokio::time::sleep), _open: open })
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.project();
        if this.at_most.as_pin_mut().is_some_and(|sleep| sleep.poll(context).is_ready()) {
            return Poll::Ready(Some(Err(Status::deadline_exceeded("the call was open for too long"))));
        }
        this.body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
