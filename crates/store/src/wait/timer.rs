use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::clock::{Clock, ManualClock};

/// A timer that lets a task sleep. Every runtime has one.
///
/// ```
/// use tollgate_store::Timer;
///
/// struct Tokio;
///
/// impl Timer for Tokio {
///     type Sleep = tokio::time::Sleep;
///
///     fn sleep(&self, ns: u64) -> tokio::time::Sleep {
///         tokio::time::sleep(std::time::Duration::from_nanos(ns))
///     }
/// }
/// ```
pub trait Timer {
    /// The future of a sleep.
    type Sleep: Future<Output = ()>;

    /// Returns a future that sleeps for `ns` nanoseconds, or slightly longer.
    fn sleep(&self, ns: u64) -> Self::Sleep;
}

impl<T: Timer + ?Sized> Timer for &T {
    type Sleep = T::Sleep;

    fn sleep(&self, ns: u64) -> T::Sleep {
        (**self).sleep(ns)
    }
}

/// The timer of Tokio.
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

/// A manual clock is its own timer: sleepers wake when it is advanced far enough.
impl Timer for ManualClock {
    type Sleep = ManualSleep;

    fn sleep(&self, ns: u64) -> ManualSleep {
        ManualSleep { until_ns: self.now_ns().saturating_add(ns), clock: self.clone() }
    }
}

/// A sleep on a [`ManualClock`].
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
