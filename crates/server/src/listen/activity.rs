use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::connection_limits::ConnectionLimits;
use super::stream::IoObserver;

/// At shutdown, a connection that was active within this time is expected to send another request, which closing would
/// break. The request is answered with `Connection: close`.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How often a stopping service checks whether requests have ended.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Marks a time that is not set.
const NEVER: u64 = u64::MAX;

/// The activity of one connection, for its timeouts. Clones share the state.
///
/// It is written for every request and read only when a timeout may have expired, so a request needs no timer.
#[derive(Clone, Debug)]
pub(crate) struct Activity(Arc<ActivityState>);

/// Times are milliseconds since the connection began.
#[derive(Debug)]
struct ActivityState {
    begun: Instant,
    /// When bytes were last read or written.
    last_io: AtomicU64,
    /// When the first bytes of the current request headers arrived.
    headers_begun: AtomicU64,
    /// Since when writes make no progress.
    write_blocked_since: AtomicU64,
    /// Requests whose responses have not ended.
    in_flight: AtomicU64,
    /// Since when a large response is being written.
    response_started: AtomicU64,
}

/// A large response that is not fully written. Others of the same address may wait for its memory.
#[derive(Debug)]
pub(crate) struct ResponseInProgress(Activity);

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity(Arc::new(ActivityState {
            begun: Instant::now(),
            last_io: AtomicU64::new(0),
            // A new connection is expected to send a request.
            headers_begun: AtomicU64::new(0),
            write_blocked_since: AtomicU64::new(NEVER),
            in_flight: AtomicU64::new(0),
            response_started: AtomicU64::new(NEVER),
        }))
    }

    /// Records that the headers of a request were read.
    pub(crate) fn begin_request(&self) {
        self.count_in_flight(1);
        self.0.headers_begun.store(NEVER, Ordering::Relaxed);
    }

    /// Records the end of a response.
    pub(crate) fn end_request(&self) {
        self.0.last_io.store(self.now(), Ordering::Relaxed);
        self.count_in_flight(u64::MAX);
    }

    /// Only the connection's own task writes, so no atomic addition is needed.
    fn count_in_flight(&self, more: u64) {
        let in_flight = &self.0.in_flight;
        in_flight.store(in_flight.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Records the start of a large response.
    pub(crate) fn begin_response(&self) -> ResponseInProgress {
        self.0.response_started.store(self.now(), Ordering::Relaxed);
        ResponseInProgress(self.clone())
    }

    /// Returns whether writes have made no progress for this long.
    pub(crate) fn is_write_blocked_for(&self, duration: Duration) -> bool {
        let write_blocked_since = self.0.write_blocked_since.load(Ordering::Relaxed);
        write_blocked_since != NEVER && write_blocked_since.saturating_add(ms(duration)) <= self.now()
    }

    /// Waits until a timeout of the connection expires, or it is idle while the service stops.
    pub(crate) async fn overdue(&self, limits: &ConnectionLimits, stopped: &mut watch::Receiver<bool>) {
        loop {
            let is_stopping = *stopped.borrow();
            let due = match self.due(limits, is_stopping) {
                Some(due) if due <= self.now() => return,
                Some(due) => self.0.begun + Duration::from_millis(due),
                None if is_stopping => Instant::now() + RECHECK_INTERVAL,
                None => Instant::now() + limits.idle_timeout,
            };
            // A stop signal wakes this at once; while stopping, the state is polled. Long before the current deadline
            // a request may end, or the headers of the next begin, with an earlier deadline.
            let max_sleep = if is_stopping { RECHECK_INTERVAL } else { limits.idle_timeout.min(limits.header_timeout) };
            let next_check = due.min(Instant::now() + max_sleep);
            tokio::select! {
                () = tokio::time::sleep_until(next_check) => {}
                changed = stopped.changed(), if !is_stopping => {
                    if changed.is_err() {
                        // The service has ended.
                        return;
                    }
                }
            }
        }
    }

    /// Returns the next deadline. There is none while a request is in flight: its handler has its own timeouts.
    fn due(&self, limits: &ConnectionLimits, is_stopping: bool) -> Option<u64> {
        let state = &*self.0;
        let last_io = state.last_io.load(Ordering::Relaxed);
        let write_blocked_since = state.write_blocked_since.load(Ordering::Relaxed);
        let response_due = state.response_started.load(Ordering::Relaxed).saturating_add(ms(limits.answer_timeout));
        if write_blocked_since != NEVER {
            return Some(write_blocked_since.saturating_add(ms(limits.write_timeout)).min(response_due));
        }
        if response_due != NEVER {
            return Some(response_due);
        }
        if state.in_flight.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let has_sent_nothing = last_io == 0;
        match state.headers_begun.load(Ordering::Relaxed) {
            // Nothing was sent yet, so the idle timeout applies too.
            headers_begun if headers_begun != NEVER && !is_stopping && has_sent_nothing => {
                Some(headers_begun.saturating_add(ms(limits.header_timeout.min(limits.idle_timeout))))
            }
            headers_begun if headers_begun != NEVER && !has_sent_nothing => {
                Some(headers_begun.saturating_add(ms(limits.header_timeout)))
            }
            _ if is_stopping => Some(last_io.saturating_add(ms(STOP_GRACE))),
            _ => Some(last_io.saturating_add(ms(limits.idle_timeout))),
        }
    }

    fn now(&self) -> u64 {
        // Bytes may arrive within the first millisecond, and 0 means that none arrived.
        ms(self.0.begun.elapsed()).max(1)
    }
}

impl IoObserver for Activity {
    fn read(&self) {
        let now = self.now();
        self.0.last_io.store(now, Ordering::Relaxed);
        let is_between_requests = self.0.in_flight.load(Ordering::Relaxed) == 0;
        if is_between_requests && self.0.headers_begun.load(Ordering::Relaxed) == NEVER {
            self.0.headers_begun.store(now, Ordering::Relaxed);
        }
    }

    fn wrote(&self) {
        self.0.last_io.store(self.now(), Ordering::Relaxed);
        self.0.write_blocked_since.store(NEVER, Ordering::Relaxed);
    }

    fn write_blocked(&self) {
        let now = self.now();
        // Only the first blocked write counts.
        let _ = self.0.write_blocked_since.compare_exchange(NEVER, now, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Drop for ResponseInProgress {
    fn drop(&mut self) {
        self.0.0.response_started.store(NEVER, Ordering::Relaxed);
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> ConnectionLimits {
        ConnectionLimits {
            header_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(5),
            ..ConnectionLimits::default()
        }
    }

    /// Returns after how many milliseconds a timeout expires.
    async fn overdue_after_ms(activity: &Activity, stopped: &mut watch::Receiver<bool>) -> u64 {
        let begun = Instant::now();
        let limits = limits();
        // Time is paused, so a day passes at once.
        let overdue = tokio::time::timeout(Duration::from_secs(86_400), activity.overdue(&limits, stopped));
        overdue.await.unwrap();
        ms(begun.elapsed())
    }

    /// Returns after how many milliseconds `overdue` completes while `traffic` runs.
    async fn overdue_while_ms(traffic: impl Future, overdue: impl Future) -> u64 {
        let begun = Instant::now();
        tokio::select! {
            _ = overdue => {}
            _ = traffic => {}
        }
        ms(begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn new_connections_have_the_header_timeout() {
        let (_stop, mut stopped) = watch::channel(false);
        assert_eq!(overdue_after_ms(&Activity::new(), &mut stopped).await, 2_000);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_headers_do_not_extend_the_header_timeout() {
        let (_stop, mut stopped) = watch::channel(false);
        let activity = Activity::new();
        activity.begin_request();
        activity.end_request();
        tokio::time::advance(Duration::from_secs(20)).await;
        activity.read();
        tokio::time::advance(Duration::from_millis(1_500)).await;
        activity.read();
        assert_eq!(overdue_after_ms(&activity, &mut stopped).await, 500);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_readers_do_not_extend_the_response_timeout() {
        let (_stop, mut stopped) = watch::channel(false);
        let activity = Activity::new();
        let response_started = activity.begin_response();
        for _ in 0..4 {
            activity.write_blocked();
            tokio::time::advance(Duration::from_secs(4)).await;
            activity.wrote();
        }
        assert_eq!(overdue_after_ms(&activity, &mut stopped).await, 14_001);
        drop(response_started);
        assert!(activity.0.response_started.load(Ordering::Relaxed) == NEVER);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_timeout_applies_between_requests() {
        let (_stop, mut stopped) = watch::channel(false);
        let activity = Activity::new();
        activity.read();
        activity.begin_request();
        activity.end_request();
        activity.wrote();
        assert_eq!(overdue_after_ms(&activity, &mut stopped).await, 30_001);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_timeout_shorter_than_the_header_timeout_applies() {
        let (_stop, mut stopped) = watch::channel(false);
        let limits = ConnectionLimits { idle_timeout: Duration::from_secs(1), ..limits() };
        let activity = Activity::new();
        let traffic = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            activity.read();
            activity.begin_request();
            activity.end_request();
            activity.wrote();
            std::future::pending::<()>().await;
        };
        assert_eq!(overdue_while_ms(traffic, activity.overdue(&limits, &mut stopped)).await, 1_100);
        let begun = Instant::now();
        Activity::new().overdue(&limits, &mut stopped).await;
        assert_eq!(ms(begun.elapsed()), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_timeout_starts_after_the_request() {
        let (_stop, mut stopped) = watch::channel(false);
        let limits = ConnectionLimits {
            idle_timeout: Duration::from_secs(1),
            header_timeout: Duration::from_secs(10),
            ..limits()
        };
        let activity = Activity::new();
        let traffic = async {
            activity.read();
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            activity.begin_request();
            activity.end_request();
            activity.wrote();
            std::future::pending::<()>().await;
        };
        assert_eq!(overdue_while_ms(traffic, activity.overdue(&limits, &mut stopped)).await, 2_500);
    }

    #[tokio::test(start_paused = true)]
    async fn header_timeout_applies_to_later_requests() {
        let (_stop, mut stopped) = watch::channel(false);
        let (limits, activity) = (limits(), Activity::new());
        activity.read();
        activity.begin_request();
        activity.end_request();
        activity.wrote();
        let traffic = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            loop {
                activity.read();
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        assert_eq!(overdue_while_ms(traffic, activity.overdue(&limits, &mut stopped)).await, 3_000);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_in_flight_have_no_deadline_and_blocked_writes_do() {
        let (_stop, mut stopped) = watch::channel(false);
        let activity = Activity::new();
        activity.begin_request();
        let limits = limits();
        let wait = tokio::time::timeout(Duration::from_secs(3_600), activity.overdue(&limits, &mut stopped));
        assert!(wait.await.is_err());
        activity.write_blocked();
        activity.write_blocked();
        assert!(overdue_after_ms(&activity, &mut stopped).await <= 5_000);
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_closes_idle_connections_at_once_and_active_ones_after_a_grace_period() {
        let (stop, mut stopped) = watch::channel(false);
        let (idle, busy) = (Activity::new(), Activity::new());
        for activity in [&idle, &busy] {
            activity.begin_request();
            activity.end_request();
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        busy.begin_request();
        busy.end_request();
        stop.send_replace(true);
        assert_eq!(overdue_after_ms(&idle, &mut stopped).await, 0);
        assert_eq!(overdue_after_ms(&busy, &mut stopped).await, 500);
    }

    #[tokio::test(start_paused = true)]
    async fn new_connections_get_a_grace_period_at_shutdown() {
        let (stop, mut stopped) = watch::channel(false);
        let activity = Activity::new();
        stop.send_replace(true);
        assert_eq!(overdue_after_ms(&activity, &mut stopped).await, 500);
    }
}
