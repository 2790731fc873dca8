use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use pin_project_lite::pin_project;

pin_project! {
    /// Two futures on one task, of which the second is looked at only when it has
    /// asked for it itself: to look at a timer whenever a byte comes would cost
    /// more than many a request.
    pub(crate) struct WithWatch<F, W> {
        #[pin]
        first: F,
        #[pin]
        watch: W,
        bell: Arc<Bell>,
    }
}

/// Rings for the second future.
struct Bell {
    has_rung: AtomicBool,
    /// The task, whose waker is the same as long as it lives.
    task: OnceLock<Waker>,
}

impl<F, W> WithWatch<F, W> {
    pub(crate) fn new(first: F, watch: W) -> WithWatch<F, W> {
        // Rung once, so that it is looked at in the beginning.
        let bell = Bell { has_rung: AtomicBool::new(true), task: OnceLock::new() };
        WithWatch { first, watch, bell: Arc::new(bell) }
    }
}

impl<F: Future, W: Future> Future for WithWatch<F, W> {
    /// Whichever ended first.
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.first.poll(context).is_ready() {
            return Poll::Ready(());
        }
        if !this.bell.has_rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        this.bell.task.get_or_init(|| context.waker().clone());
        let waker = Waker::from(Arc::clone(this.bell));
        this.watch.poll(&mut Context::from_waker(&waker)).map(|_| ())
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
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
    async fn the_watch_ends_what_would_never_end() {
        WithWatch::new(pending::<()>(), tokio::time::sleep(Duration::from_secs(5))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_is_not_watched_any_longer() {
        WithWatch::new(async {}, pending::<()>()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_watch_is_looked_at_only_when_it_asks() {
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
        WithWatch::new(busy, watch).await;
        assert_eq!(looks, 1);
    }
}
