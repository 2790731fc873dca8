use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The result of a future that waits for nothing: one that only awaits a local store. It stays where it is
/// pinned, because some are large.
#[inline]
pub(crate) fn immediately<T>(future: Pin<&mut impl Future<Output = T>>) -> T {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a local store answers when it is first asked"),
    }
}
