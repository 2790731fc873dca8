use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::stream::IoObserver;

/// The number of checks per idle timeout, so it fires at most a quarter late.
const STEPS: u32 = 4;

pin_project! {
    /// A future and its deadline on one task. The deadline is polled only when its own waker was called: polling a
    /// timer for every read would cost more than many requests.
    pub(crate) struct WithDeadline<F, W> {
        #[pin]
        first: F,
        #[pin]
        deadline: W,
        waker: Arc<DeadlineWaker>,
    }
}

/// The waker of the deadline.
struct DeadlineWaker {
    is_due: AtomicBool,
    /// The waker of the task, which does not change.
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
    /// Completes when either future does.
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

/// The idle timeout of one connection. Clones share the state.
///
/// It only counts reads and writes: reading the clock would cost more than many commands.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleTimer {
    seen: Arc<AtomicU64>,
}

impl IdleTimer {
    /// Waits until nothing was read or written for this long.
    pub(crate) async fn wait(&self, idle_for: Duration) {
        let (mut seen, mut idle_steps) = (self.seen.load(Relaxed), 0);
        while idle_steps < STEPS {
            tokio::time::sleep(idle_for / STEPS).await;
            let now = self.seen.load(Relaxed);
            idle_steps = if now == seen { idle_steps + 1 } else { 0 };
            seen = now;
        }
    }

    /// Only the connection's own task writes, so no atomic addition is needed.
    fn reset(&self) {
        self.seen.store(self.seen.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

impl IoObserver for IdleTimer {
    fn read(&self) {
        self.reset();
    }

    fn wrote(&self) {
        self.reset();
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, advance, sleep, timeout};

    use super::*;
    use crate::listen::ActivityStream;

    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn connection_without_bytes_is_idle() {
        let begun = Instant::now();
        IdleTimer::default().wait(8 * S).await;
        assert!((8 * S..=10 * S).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_in_time_reset_the_idle_timer() {
        let idle = IdleTimer::default();
        let (mut client, server) = duplex(64);
        let mut server = ActivityStream::new(server, idle.clone());
        let traffic = async {
            for _ in 0..20 {
                sleep(7 * S).await;
                client.write_all(b"x").await.unwrap();
                server.read_u8().await.unwrap();
            }
        };
        let ended = tokio::select! {
            () = idle.wait(8 * S) => false,
            () = traffic => true,
        };
        assert!(ended);
        let begun = Instant::now();
        idle.wait(8 * S).await;
        assert!((8 * S..=10 * S).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_completed_write_resets_the_idle_timer() {
        let idle = IdleTimer::default();
        let (_client, server) = duplex(4);
        let mut server = ActivityStream::new(server, idle.clone());
        server.write_all(b"full").await.unwrap();
        assert_eq!(idle.seen.load(Relaxed), 1);
        advance(S).await;
        assert!(timeout(S, server.write_all(b"x")).await.is_err());
        assert_eq!(idle.seen.load(Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_ends_a_pending_future() {
        WithDeadline::new(pending::<()>(), tokio::time::sleep(Duration::from_secs(5))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn completed_future_does_not_wait_for_the_deadline() {
        WithDeadline::new(async {}, pending::<()>()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_is_polled_only_when_woken() {
        let mut polls = 0;
        let deadline = poll_fn(|_| {
            polls += 1;
            Poll::<()>::Pending
        });
        let busy = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        WithDeadline::new(busy, deadline).await;
        assert_eq!(polls, 1);
    }
}
