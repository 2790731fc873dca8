use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// Returns the output of a future, or `None` after a timeout. Most futures here are ready when first polled, and then
/// no timer is created. The future stays pinned in place: some are large, and moving one is measurable.
pub(crate) async fn timeout_unless_ready<F: Future>(timeout: Duration, mut future: Pin<&mut F>) -> Option<F::Output> {
    if let Poll::Ready(ready) = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
        return Some(ready);
    }
    tokio::time::timeout(timeout, future).await.ok()
}
