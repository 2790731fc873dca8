use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::clock::{Clock, ManualClock};

/// Lets a task sleep. Whatever runtime there is has one.
pub trait Timer {
    /// What is awaited.
    type Sleep: Future<Output = ()>;

    /// Sleeps for `ns` nanoseconds, or a little longer.
    fn sleep(&self, ns: u64) -> Self::Sleep;
}

impl<T: Timer + ?Sized> Timer for &T {
    type Sleep = T::Sleep;

    fn sleep(&self, ns: u64) -> T::Sleep {
        (**self).sleep(ns)
    }
}

/// Tokio's timer.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioTimer;

#[cfg(feature = "tokio")]
impl Timer for TokioTimer {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, ns: u64) -> tokio::time::Sleep {
        tokio::time::sleep(std::time::Duration::from_nanos(ns))
    }
}

/// A manual clock is its own timer: who sleeps wakes when it is moved far enough.
impl Timer for ManualClock {
    type Sleep = ManualSleep;

    fn sleep(&self, ns: u64) -> ManualSleep {
        ManualSleep { until_ns: self.now_ns().saturating_add(ns), clock: self.clone() }
    }
}

/// Sleep on a [`ManualClock`].
#[derive(Debug)]
pub struct ManualSleep {
    clock: ManualClock,
    until_ns: u64,
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.now_ns() >= self.until_ns {
            return Poll::Ready(());
        }
        self.clock.wake_at(self.until_ns, context.waker().clone());
        Poll::Pending
    }
}
