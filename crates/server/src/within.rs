use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// What a future answers, unless it takes too long. Nearly everything here is
/// ready at once, and what is does not need a timer. The future stays where it
/// is pinned: some are large, and to move one would show.
pub(crate) async fn within<F: Future>(at_most: Duration, mut future: Pin<&mut F>) -> Option<F::Output> {
    if let Poll::Ready(ready) = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
        return Some(ready);
    }
    tokio::time::timeout(at_most, future).await.ok()
}
