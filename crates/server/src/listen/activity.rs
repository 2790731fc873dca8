use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::connection_limits::ConnectionLimits;
use super::stream::NotesBytes;

/// Whoever was not silent for so long when the service stops is about to send
/// another request, and closing the connection would break it. It is answered,
/// and the answer says that the connection closes.
const ABOUT_TO_SEND: Duration = Duration::from_millis(500);

/// How often a stopping service looks whether a request has ended meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// No time.
const NEVER: u64 = u64::MAX;

/// What one connection is doing, so that it does not take for ever. All clones are the same connection.
///
/// It is written at every request and read only when somebody might have run
/// out of time, so a request costs no timer.
#[derive(Clone, Debug)]
pub(crate) struct Activity(Arc<State>);

/// Times are milliseconds since the connection began.
#[derive(Debug)]
struct State {
    begun: Instant,
    /// When bytes last came or went.
    moved: AtomicU64,
    /// When the head that is being read began.
    head_begun: AtomicU64,
    /// Since when somebody does not take what is written to them.
    stuck: AtomicU64,
    /// Requests whose responses have not ended.
    in_flight: AtomicU64,
    /// Since when a large answer is being written.
    answering: AtomicU64,
}

/// A large answer that is not written yet. While it waits, others of the same address may have to.
#[derive(Debug)]
pub(crate) struct Answering(Activity);

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity(Arc::new(State {
            begun: Instant::now(),
            moved: AtomicU64::new(0),
            // Who connects is expected to say something.
            head_begun: AtomicU64::new(0),
            stuck: AtomicU64::new(NEVER),
            in_flight: AtomicU64::new(0),
            answering: AtomicU64::new(NEVER),
        }))
    }

    /// A request's head was read.
    pub(crate) fn begin_request(&self) {
        self.count_in_flight(1);
        self.0.head_begun.store(NEVER, Ordering::Relaxed);
    }

    /// Its response has ended.
    pub(crate) fn end_request(&self) {
        self.0.moved.store(self.now(), Ordering::Relaxed);
        self.count_in_flight(u64::MAX);
    }

    /// Only the connection's own task counts, so it takes no more than to add.
    fn count_in_flight(&self, more: u64) {
        let in_flight = &self.0.in_flight;
        in_flight.store(in_flight.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// A large answer is about to be written.
    pub(crate) fn begin_answer(&self) -> Answering {
        self.0.answering.store(self.now(), Ordering::Relaxed);
        Answering(self.clone())
    }

    /// Whether nothing could be written for so long.
    pub(crate) fn is_stuck_for(&self, so_long: Duration) -> bool {
        let stuck = self.0.stuck.load(Ordering::Relaxed);
        stuck != NEVER && stuck.saturating_add(ms(so_long)) <= self.now()
    }

    /// Waits until the connection has taken too long for something, or is idle while the service stops.
    pub(crate) async fn overdue(&self, limits: &ConnectionLimits, stopped: &mut watch::Receiver<bool>) {
        loop {
            let is_stopping = *stopped.borrow();
            let due = match self.due(limits, is_stopping) {
                Some(due) if due <= self.now() => return,
                Some(due) => self.0.begun + Duration::from_millis(due),
                None if is_stopping => Instant::now() + LOOK_AGAIN,
                None => Instant::now() + limits.idle_timeout,
            };
            // Who stops is told at once; who has stopped already is looked at again in time. Long before what is due
            // now, a request may end, or the head of the next begin, and then something is due sooner.
            let at_most = if is_stopping { LOOK_AGAIN } else { limits.idle_timeout.min(limits.header_timeout) };
            let look_again = due.min(Instant::now() + at_most);
            tokio::select! {
                () = tokio::time::sleep_until(look_again) => {}
                changed = stopped.changed(), if !is_stopping => {
                    if changed.is_err() {
                        // The service is gone.
                        return;
                    }
                }
            }
        }
    }

    /// When something is due. Nothing is while a request is in flight: its handler has bounds of its own.
    fn due(&self, limits: &ConnectionLimits, is_stopping: bool) -> Option<u64> {
        let state = &*self.0;
        let moved = state.moved.load(Ordering::Relaxed);
        let stuck = state.stuck.load(Ordering::Relaxed);
        let answered = state.answering.load(Ordering::Relaxed).saturating_add(ms(limits.answer_timeout));
        if stuck != NEVER {
            return Some(stuck.saturating_add(ms(limits.write_timeout)).min(answered));
        }
        if answered != NEVER {
            return Some(answered);
        }
        if state.in_flight.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let has_said_nothing = moved == 0;
        match state.head_begun.load(Ordering::Relaxed) {
            // Nothing has begun yet, so it is a silence too.
            head_begun if head_begun != NEVER && !is_stopping && has_said_nothing => {
                Some(head_begun.saturating_add(ms(limits.header_timeout.min(limits.idle_timeout))))
            }
            head_begun if head_begun != NEVER && !has_said_nothing => {
                Some(head_begun.saturating_add(ms(limits.header_timeout)))
            }
            _ if is_stopping => Some(moved.saturating_add(ms(ABOUT_TO_SEND))),
            _ => Some(moved.saturating_add(ms(limits.idle_timeout))),
        }
    }

    fn now(&self) -> u64 {
        // Bytes may come within the first millisecond, and 0 says that none came.
        ms(self.0.begun.elapsed()).max(1)
    }
}

impl NotesBytes for Activity {
    fn read(&self) {
        let now = self.now();
        self.0.moved.store(now, Ordering::Relaxed);
        let is_between = self.0.in_flight.load(Ordering::Relaxed) == 0;
        if is_between && self.0.head_begun.load(Ordering::Relaxed) == NEVER {
            self.0.head_begun.store(now, Ordering::Relaxed);
        }
    }

    fn wrote(&self) {
        self.0.moved.store(self.now(), Ordering::Relaxed);
        self.0.stuck.store(NEVER, Ordering::Relaxed);
    }

    fn could_not_write(&self) {
        let now = self.now();
        // Only the first time counts.
        let _ = self.0.stuck.compare_exchange(NEVER, now, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.answering.store(NEVER, Ordering::Relaxed);
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

    /// How long it takes until the connection is overdue, in milliseconds.
    async fn overdue_after_ms(activity: &Activity, stopped: &mut watch::Receiver<bool>) -> u64 {
        let begun = Instant::now();
        let limits = limits();
        // The time is not real, so a day of it is soon over.
        let overdue = tokio::time::timeout(Duration::from_secs(86_400), activity.overdue(&limits, stopped));
        overdue.await.unwrap();
        ms(begun.elapsed())
    }

    /// The same while somebody asks something.
    async fn overdue_while_ms(ask: impl Future, overdue: impl Future) -> u64 {
        let begun = Instant::now();
        tokio::select! {
            _ = overdue => {}
            _ = ask => {}
        }
        ms(begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_has_as_long_as_a_head_may_take() {
        let (_stop, mut stopped) = watch::channel(false);
        assert_eq!(overdue_after_ms(&Activity::new(), &mut stopped).await, 2_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_trickles_in_is_not_waited_for_longer() {
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
    async fn a_large_answer_that_is_read_slowly_is_not_waited_for_longer() {
        let (_stop, mut stopped) = watch::channel(false);
        let activity = Activity::new();
        let answering = activity.begin_answer();
        for _ in 0..4 {
            activity.could_not_write();
            tokio::time::advance(Duration::from_secs(4)).await;
            activity.wrote();
        }
        assert_eq!(overdue_after_ms(&activity, &mut stopped).await, 14_001);
        drop(answering);
        assert!(activity.0.answering.load(Ordering::Relaxed) == NEVER);
    }

    #[tokio::test(start_paused = true)]
    async fn between_requests_it_may_be_idle() {
        let (_stop, mut stopped) = watch::channel(false);
        let activity = Activity::new();
        activity.read();
        activity.begin_request();
        activity.end_request();
        activity.wrote();
        assert_eq!(overdue_after_ms(&activity, &mut stopped).await, 30_001);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_silence_is_noticed_though_a_head_may_take_longer() {
        let (_stop, mut stopped) = watch::channel(false);
        let limits = ConnectionLimits { idle_timeout: Duration::from_secs(1), ..limits() };
        let activity = Activity::new();
        let ask = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            activity.read();
            activity.begin_request();
            activity.end_request();
            activity.wrote();
            std::future::pending::<()>().await;
        };
        assert_eq!(overdue_while_ms(ask, activity.overdue(&limits, &mut stopped)).await, 1_100);
        let begun = Instant::now();
        Activity::new().overdue(&limits, &mut stopped).await;
        assert_eq!(ms(begun.elapsed()), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_counts_from_the_request_though_its_head_was_looked_at_before() {
        let (_stop, mut stopped) = watch::channel(false);
        let limits = ConnectionLimits {
            idle_timeout: Duration::from_secs(1),
            header_timeout: Duration::from_secs(10),
            ..limits()
        };
        let activity = Activity::new();
        let ask = async {
            activity.read();
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            activity.begin_request();
            activity.end_request();
            activity.wrote();
            std::future::pending::<()>().await;
        };
        assert_eq!(overdue_while_ms(ask, activity.overdue(&limits, &mut stopped)).await, 2_500);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_also_after_other_requests() {
        let (_stop, mut stopped) = watch::channel(false);
        let (limits, activity) = (limits(), Activity::new());
        activity.read();
        activity.begin_request();
        activity.end_request();
        activity.wrote();
        let ask = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            loop {
                activity.read();
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        assert_eq!(overdue_while_ms(ask, activity.overdue(&limits, &mut stopped)).await, 3_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_under_way_is_waited_for_and_one_who_does_not_read_is_not() {
        let (_stop, mut stopped) = watch::channel(false);
        let activity = Activity::new();
        activity.begin_request();
        let limits = limits();
        let wait = tokio::time::timeout(Duration::from_secs(3_600), activity.overdue(&limits, &mut stopped));
        assert!(wait.await.is_err());
        activity.could_not_write();
        activity.could_not_write();
        assert!(overdue_after_ms(&activity, &mut stopped).await <= 5_000);
    }

    #[tokio::test(start_paused = true)]
    async fn when_it_stops_idle_connections_close_at_once_and_busy_ones_get_a_moment() {
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
    async fn when_it_stops_who_said_nothing_gets_a_moment() {
        let (stop, mut stopped) = watch::channel(false);
        let activity = Activity::new();
        stop.send_replace(true);
        assert_eq!(overdue_after_ms(&activity, &mut stopped).await, 500);
    }
}
