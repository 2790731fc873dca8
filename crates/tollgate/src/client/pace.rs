//! When a client may send its next request to one key: a pure state machine. Time and randomness are passed in.
//!
//! Three things delay a request: a pause that the server asked for, the spacing that follows from what remains of its
//! limits, and the adaptive rate after refusals. The latest of the three counts.
//!
//! *Spacing.* What remains is spread evenly over the time until the limit is whole again: `time / (remaining + 1)`.
//! Under a window this uses up the limit just when the window ends. Under a bucket the time until it is full follows
//! from what is missing, so the level settles at half: requests leave at the rate of the limit, and half of the burst
//! is left for what is not yet known. A client that shares its key sends its [share](super::share) of this.

use super::adaptive_rate::AdaptiveRate;
use super::limit_kind::{LastState, LimitKind, nanos};
use super::random::JitterSource;
use super::server_hint::{LimitHint, ServerHint};
use super::share::Share;

const S_NS: u64 = 1_000_000_000;

/// How long other requests wait for the first response of a server, which tells its limits.
const PROBE_NS: u64 = S_NS;

/// A paced client that was idle may send this many requests at once, so that occasional requests do not wait.
const CREDIT: u64 = 4;

/// The random part of a time between two requests is at most a quarter, so that clients do not line up.
const JITTER: u64 = 4;

/// The longest time that is added to a pause so that clients do not return together.
const MAX_SPREAD_NS: u64 = 10 * S_NS;

/// Under a bucket, spacing never takes the rate below a quarter of the limit: it refills without any response. A client
/// alone can always send the next unit.
const SLOWEST: u64 = 4;

/// A client that sent nothing for so long, and for eight times its spacing, measures its share anew.
const IDLE_NS: u64 = 10 * S_NS;

/// A request that has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    number: u64,
    at_ns: u64,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    Accepted,
    /// By a limit or an overload.
    Refused,
    /// No response.
    Failed,
}

/// A time before which no request leaves.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until_ns: u64,
    /// What the server asked for, if that is longer than the ceiling.
    beyond_ns: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Pace {
    ceiling_ns: u64,
    random: JitterSource,
    /// The number of requests that have left.
    departed: u64,
    /// When the last one left by the schedule. After idle time it is less than the time at which it really left.
    scheduled_ns: u64,
    /// The time between two requests by the server's fields, and the random part of the current one.
    spacing_ns: u64,
    jitter_ns: i64,
    pause: Pause,
    /// Until when the first response is waited for. 0 if it has arrived.
    probe_until_ns: u64,
    last: Option<LastState>,
    /// The number of the request whose response stated it.
    last_number: u64,
    share: Share,
    adaptive: AdaptiveRate,
}

/// When the next request may leave, by one limit.
struct Spacing {
    interval_ns: u64,
    /// The time until the limit has anything left.
    empty_for_ns: Option<u64>,
}

impl Pace {
    pub(super) fn new(ceiling_ns: u64, random: JitterSource) -> Pace {
        Pace {
            ceiling_ns,
            random,
            departed: 0,
            scheduled_ns: 0,
            spacing_ns: 0,
            jitter_ns: 0,
            pause: Pause::default(),
            probe_until_ns: 0,
            last: None,
            last_number: 0,
            share: Share::unknown(),
            adaptive: AdaptiveRate::default(),
        }
    }

    /// Returns the time at which the next request may leave.
    pub(super) fn opens_ns(&self) -> u64 {
        let interval_ns = self.interval_ns();
        let scheduled_ns = match interval_ns {
            0 => 0,
            _ => self.scheduled_ns.saturating_add(interval_ns).saturating_add_signed(self.jitter_ns),
        };
        scheduled_ns.max(self.pause.until_ns).max(self.probe_until_ns)
    }

    /// Returns the time between two requests; 0 if they are not paced.
    pub(super) fn interval_ns(&self) -> u64 {
        self.spacing_ns.max(self.adaptive.interval_ns())
    }

    /// Returns the pause that the server asked for, if it is longer than the ceiling and has not ended.
    pub(super) fn pause_beyond_ceiling_ns(&self, now_ns: u64) -> Option<u64> {
        self.pause.beyond_ns.filter(|_| now_ns < self.pause.until_ns)
    }

    /// Whether it has nothing to remember: it is as if it were new, but for its share.
    pub(super) fn is_idle(&self, now_ns: u64) -> bool {
        self.opens_ns() <= now_ns && self.adaptive.interval_ns() == 0
    }

    /// Lets a request leave. The caller has found it open.
    pub(super) fn depart(&mut self, now_ns: u64) -> Departure {
        if self.departed == 0 {
            self.probe_until_ns = now_ns.saturating_add(PROBE_NS);
        } else if self.probe_until_ns <= now_ns {
            self.probe_until_ns = 0;
        }
        let interval_ns = self.interval_ns();
        let earliest_ns = now_ns.saturating_sub(interval_ns.saturating_mul(CREDIT));
        self.scheduled_ns = self.opens_ns().clamp(earliest_ns, now_ns);
        let most_ns = self.share.of_others(interval_ns / JITTER);
        let random_ns = self.random.up_to(most_ns.saturating_mul(2));
        self.jitter_ns = i64::try_from(random_ns).unwrap_or(i64::MAX) - i64::try_from(most_ns).unwrap_or(i64::MAX);
        self.departed += 1;
        self.adaptive.sent(now_ns);
        Departure { number: self.departed, at_ns: now_ns }
    }

    /// Records what came back. Returns whether a new pause began.
    pub(super) fn observe(&mut self, departure: Departure, answer: AnswerKind, hint: &ServerHint, now_ns: u64) -> bool {
        self.probe_until_ns = 0;
        match answer {
            AnswerKind::Accepted => self.adaptive.accepted(now_ns),
            AnswerKind::Refused => {
                self.adaptive.refused(now_ns);
                self.share.refused();
            }
            AnswerKind::Failed => return false,
        }
        let paused_until_ns = self.pause.until_ns;
        if let (AnswerKind::Refused, Some(wait)) = (answer, hint.retry_after) {
            let wait_ns = nanos(wait);
            let spread_ns = (wait_ns / JITTER).max(self.interval_ns().min(wait_ns)).min(MAX_SPREAD_NS);
            self.pause(wait_ns, spread_ns, now_ns);
        }
        self.observe_limits(departure, answer, hint, now_ns);
        self.pause.until_ns > paused_until_ns
    }

    /// Begins a pause, or extends the current one.
    fn pause(&mut self, wait_ns: u64, spread_ns: u64, now_ns: u64) {
        let beyond_ns = (wait_ns > self.ceiling_ns).then_some(wait_ns);
        let until_ns = now_ns.saturating_add(wait_ns.min(self.ceiling_ns)).saturating_add(self.random.up_to(spread_ns));
        if until_ns > self.pause.until_ns {
            self.pause = Pause { until_ns, beyond_ns };
        }
    }

    fn observe_limits(&mut self, departure: Departure, answer: AnswerKind, hint: &ServerHint, now_ns: u64) {
        if self.last_number > departure.number {
            // An older state than the last known.
            return;
        }
        let kind = |limit: &LimitHint| LimitKind::of(limit, self.last_of(limit), departure.at_ns);
        let spacing = |limit: &LimitHint| self.spacing(limit, kind(limit), departure, now_ns);
        let tightest = match &hint.limits[..] {
            [only] => Some(only),
            limits => limits.iter().max_by_key(|limit| spacing(limit).interval_ns),
        };
        let Some(limit) = tightest else {
            // A refusal without fields may come from a proxy. Other responses without them are not limited.
            if answer == AnswerKind::Accepted {
                self.spacing_ns = 0;
            }
            return;
        };
        let kind = kind(limit);
        if answer == AnswerKind::Accepted {
            self.measure_share(limit, kind, departure);
        }
        let spacing = self.spacing(limit, kind, departure, now_ns);
        self.last = Some(LastState::next(limit, self.last_of(limit), kind, departure.at_ns));
        self.last_number = departure.number;
        let usual_ns = self.spacing_ns;
        self.spacing_ns = spacing.interval_ns.min(self.ceiling_ns);
        if let Some(wait_ns) = spacing.empty_for_ns {
            // Clients return after the reset over the time between two requests of one, as they left before.
            self.pause(wait_ns, usual_ns.min(MAX_SPREAD_NS), now_ns);
            self.spacing_ns = usual_ns;
        }
        if limit.remaining == 0 {
            self.scheduled_ns = self.scheduled_ns.max(departure.at_ns);
        }
    }

    /// Returns the time between two requests that a limit permits.
    fn spacing(&self, limit: &LimitHint, kind: LimitKind, departure: Departure, now_ns: u64) -> Spacing {
        // Requests that have left since cannot be counted in this state.
        let unseen = self.departed - departure.number;
        let age_ns = now_ns.saturating_sub(departure.at_ns);
        match kind {
            LimitKind::Bucket { quota, unit_ns } => self.bucket_spacing(limit, quota, unit_ns, unseen, age_ns),
            LimitKind::Window { ends_ns } => self.window_spacing(limit, ends_ns.saturating_sub(now_ns), unseen),
            LimitKind::Unknown => Spacing { interval_ns: 0, empty_for_ns: None },
        }
    }

    fn bucket_spacing(&self, limit: &LimitHint, quota: u64, unit_ns: u64, unseen: u64, age_ns: u64) -> Spacing {
        // Above three quarters nothing waits; the spacing begins gradually.
        let (free, quarter) = (quota / 4 * 3, (quota / 4).max(1));
        if quota >= 4 && limit.remaining.saturating_sub(unseen) >= free {
            return Spacing { interval_ns: 0, empty_for_ns: None };
        }
        let own_unit_ns = u64::try_from(self.share.times_all(u128::from(unit_ns))).unwrap_or(u64::MAX).max(1);
        let longest_ns = own_unit_ns.saturating_add(self.share.of_others(own_unit_ns).saturating_mul(SLOWEST - 1));
        let level = limit.remaining.saturating_add(age_ns / own_unit_ns).min(quota).saturating_sub(unseen);
        let until_full_ns = u128::from(quota - level) * u128::from(unit_ns);
        let spacing_ns = self.share.times_all(until_full_ns / (u128::from(level) + 1)).min(u128::from(longest_ns));
        let below = free.saturating_sub(level).min(quarter);
        let part = if quota < 4 { spacing_ns } else { spacing_ns * u128::from(below) / u128::from(quarter) };
        Spacing { interval_ns: u64::try_from(part).unwrap_or(u64::MAX), empty_for_ns: None }
    }

    fn window_spacing(&self, limit: &LimitHint, left_ns: u64, unseen: u64) -> Spacing {
        // Other clients may have sent requests that this state does not count.
        let reserve = self.share.of_others(limit.quota.unwrap_or(limit.remaining) / 50);
        let level = limit.remaining.saturating_sub(unseen).saturating_sub(reserve);
        if level == 0 {
            return Spacing { interval_ns: left_ns, empty_for_ns: Some(left_ns) };
        }
        let spacing_ns = self.share.times_all(u128::from(left_ns) / (u128::from(level) + 1)).min(u128::from(left_ns));
        Spacing { interval_ns: u64::try_from(spacing_ns).unwrap_or(u64::MAX), empty_for_ns: None }
    }

    /// Returns the last known state, if it is of this limit.
    fn last_of(&self, limit: &LimitHint) -> Option<LastState> {
        self.last.filter(|last| last.limit.name == limit.name)
    }

    /// Compares a state of a limit with the previous one.
    fn measure_share(&mut self, limit: &LimitHint, kind: LimitKind, departure: Departure) {
        let Some(last) = self.last_of(limit) else { return };
        let own = departure.number - self.last_number;
        let elapsed_ns = departure.at_ns.saturating_sub(last.at_ns);
        if elapsed_ns > IDLE_NS && elapsed_ns > self.interval_ns().saturating_mul(8) {
            self.share = Share::unknown();
            return;
        }
        let used = i128::from(last.limit.remaining) - i128::from(limit.remaining);
        match kind {
            LimitKind::Bucket { quota, .. } if limit.remaining.saturating_add(own) >= quota => self.share.unused(own),
            LimitKind::Bucket { unit_ns, .. } => {
                let refilled = u128::from(elapsed_ns) * 1_000 / u128::from(unit_ns);
                let used = i128::try_from(refilled).unwrap_or(i128::MAX).saturating_add(used * 1_000);
                self.share.measured(own, i64::try_from(used).unwrap_or(i64::MAX));
            }
            // After a reset, more remains than before.
            LimitKind::Window { .. } if used >= 0 => {
                self.share.measured(own, i64::try_from(used).unwrap_or(i64::MAX).saturating_mul(1_000));
            }
            LimitKind::Window { .. } | LimitKind::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const CEILING_NS: u64 = 60 * S_NS;

    fn pace() -> Pace {
        Pace::new(CEILING_NS, JitterSource::seeded(1))
    }

    fn bucket(remaining: u64) -> ServerHint {
        let (quota, window, reset) = (Some(100), Some(Duration::from_secs(10)), Some(Duration::from_secs(1)));
        hint(None, LimitHint { name: 1, remaining, reset, quota, window })
    }

    fn hint(retry_after_s: Option<u64>, limit: LimitHint) -> ServerHint {
        let mut hint = ServerHint { retry_after: retry_after_s.map(Duration::from_secs), ..ServerHint::default() };
        hint.limits.push(limit);
        hint
    }

    fn pause_of(seconds: u64) -> ServerHint {
        ServerHint { retry_after: Some(Duration::from_secs(seconds)), ..ServerHint::default() }
    }

    /// Sends one request, which comes back after a millisecond, and returns when the next may leave.
    fn after(pace: &mut Pace, answer: AnswerKind, hint: &ServerHint) -> u64 {
        let departure = pace.depart(pace.opens_ns());
        pace.observe(departure, answer, hint, departure.at_ns + 1_000_000);
        pace.opens_ns()
    }

    /// Sends requests to a bucket that no other client uses, and returns what remains.
    fn use_bucket(pace: &mut Pace, requests: usize) -> u64 {
        let (mut thousandths, mut last_ns) = (100_000, 0);
        for _ in 0..requests {
            let now_ns = pace.opens_ns().max(last_ns);
            // One unit in a tenth of a second.
            thousandths = (thousandths + (now_ns - last_ns) / 100_000).min(100_000) - 1_000;
            let departure = pace.depart(now_ns);
            pace.observe(departure, AnswerKind::Accepted, &bucket(thousandths / 1_000), now_ns);
            last_ns = now_ns;
        }
        thousandths / 1_000
    }

    #[test]
    fn first_response_is_waited_for_a_second_at_most() {
        let mut pace = pace();
        let departure = pace.depart(5);
        assert_eq!(pace.opens_ns(), 5 + PROBE_NS);
        pace.observe(departure, AnswerKind::Failed, &ServerHint::default(), 7);
        assert_eq!(pace.opens_ns(), 0);
    }

    #[test]
    fn client_alone_leaves_at_the_rate_of_a_bucket_that_is_half_full() {
        let mut pace = pace();
        let level = use_bucket(&mut pace, 200);
        let spacing_ns = pace.interval_ns();
        assert!((80_000_000..120_000_000).contains(&spacing_ns) && (40..60).contains(&level), "{spacing_ns} {level}");
    }

    #[test]
    fn nothing_waits_while_most_of_a_bucket_remains() {
        let mut pace = pace();
        for remaining in [99, 90, 80] {
            assert_eq!(after(&mut pace, AnswerKind::Accepted, &bucket(remaining)), 0);
        }
        assert!(after(&mut pace, AnswerKind::Accepted, &bucket(50)) > 0);
    }

    #[test]
    fn later_pause_does_not_shorten_an_earlier_one() {
        let mut pace = pace();
        let (one, two) = (pace.depart(0), pace.depart(S_NS));
        assert!(pace.observe(one, AnswerKind::Refused, &pause_of(20), 2 * S_NS));
        let opens_ns = pace.opens_ns();
        assert!((22 * S_NS..=27 * S_NS).contains(&opens_ns), "{opens_ns}");
        assert!(!pace.observe(two, AnswerKind::Refused, &pause_of(1), 2 * S_NS));
        assert_eq!(pace.opens_ns(), opens_ns);
    }

    #[test]
    fn pause_beyond_the_ceiling_lasts_for_the_ceiling() {
        let mut pace = pace();
        let departure = pace.depart(0);
        pace.observe(departure, AnswerKind::Refused, &pause_of(3_600), 0);
        assert_eq!(pace.pause_beyond_ceiling_ns(S_NS), Some(3_600 * S_NS));
        assert_eq!(pace.pause_beyond_ceiling_ns(CEILING_NS + MAX_SPREAD_NS), None);
    }

    #[test]
    fn older_response_that_arrives_late_is_ignored() {
        let mut pace = pace();
        let (one, two) = (pace.depart(0), pace.depart(S_NS));
        pace.observe(two, AnswerKind::Accepted, &bucket(10), 2 * S_NS);
        let spacing_ns = pace.interval_ns();
        pace.observe(one, AnswerKind::Accepted, &bucket(99), 2 * S_NS);
        assert_eq!(pace.interval_ns(), spacing_ns);
    }

    #[test]
    fn idle_client_has_credit_for_a_few_requests() {
        let mut pace = pace();
        use_bucket(&mut pace, 200);
        let now_ns = pace.opens_ns() + 3_600 * S_NS;
        let left = (0..100).take_while(|_| pace.opens_ns() <= now_ns && pace.depart(now_ns).number > 0).count();
        assert_eq!(left as u64, CREDIT + 1);
    }

    proptest! {
        /// No field stops a client for longer than the ceiling and the random parts.
        #[test]
        fn wait_is_bounded_whatever_a_server_says(
            responses in prop::collection::vec(
                (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), prop::option::of(any::<u64>()), any::<bool>()),
                1..50,
            ),
        ) {
            let mut pace = pace();
            let mut now_ns = 0;
            for (remaining, reset_s, quota, window_s, retry_s, is_refused) in responses {
                let departure = pace.depart(now_ns);
                let span = |seconds: u64| Duration::from_secs(seconds % (366 * 24 * 3_600) + 1);
                let (quota, window, reset) = (Some(quota % 1_000_000 + 1), Some(span(window_s)), Some(span(reset_s)));
                let limit = LimitHint { name: remaining % 2, remaining: remaining % 2_000_000, reset, quota, window };
                let hint = ServerHint { retry_after: retry_s.map(span), ..hint(None, limit) };
                now_ns += 1_000_000;
                let answer = if is_refused { AnswerKind::Refused } else { AnswerKind::Accepted };
                pace.observe(departure, answer, &hint, now_ns);
                let wait_ns = pace.opens_ns().saturating_sub(now_ns);
                prop_assert!(wait_ns <= CEILING_NS + CEILING_NS / JITTER + MAX_SPREAD_NS, "{wait_ns}");
                now_ns = now_ns.max(pace.opens_ns());
            }
        }
    }
}
