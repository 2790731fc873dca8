use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use pin_project_lite::pin_project;

pin_project! {
    /// A future and its deadline on one task. The deadline is polled only when its own
    /// waker was called: polling a timer for every byte that comes would cost more than
    /// many a request.
    pub(crate) struct WithDeadline<F, W> {
        #[pin]
        first: F,
        #[pin]
        deadline: W,
        waker: Arc<DeadlineWaker>,
    }
}

/// Wakes the task for the deadline.
struct DeadlineWaker {
    is_due: AtomicBool,
    /// The task, whose waker is the same as long as it lives.
    task: OnceLock<Waker>,
}

impl<F, W> WithDeadline<F, W> {
    pub(crate) fn new(first: F, deadline: W) -> WithDeadline<F, W> {
        // Due at the start, so that it is polled once.
        let waker = DeadlineWaker { is_due: AtomicBool::new(true), task: OnceLock::new() };
        WithDeadline { first, deadline, waker: Arc::new(waker) }
    }
}

impl<F: Future, W: Future> Future for WithDeadline<F, W> {
    /// Whichever ended first.
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.first.poll(context).is_ready() {
            return Poll::Ready(());
        }
        if !this.waker.is_due.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        this.waker.task.get_or_init(|| context.waker().clone());
        let waker = Waker::from(Arc::clone(this.waker));
        this.deadline.poll(&mut Context::from_waker(&waker)).map(|_| ())
    }
}

impl Wake for DeadlineWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_deadline_ends_a_future_that_never_ends() {
        WithDeadline::new(pending::<()>(), tokio::time::sleep(Duration::from_secs(5))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_that_ends_does_not_wait_for_the_deadline() {
        WithDeadline::new(async {}, pending::<()>()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_polled_only_when_woken() {
        let mut looks = 0;
        let watch = poll_fn(|_| {
            looks += 1;
            Poll::<()>::Pending
        });
        let busy = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        WithDeadline::new(busy, watch).await;
        assert_eq!(looks, 1);
    }
}
