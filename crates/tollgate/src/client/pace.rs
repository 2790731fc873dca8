//! When a client may send its next request to one key: a pure state machine. Time and randomness are passed in.
//!
//! Three things delay a request: a pause that the server asked for, the spacing that follows from what remains of its
//! limits, and the adaptive rate after refusals. The latest of the three counts.
//!
//! *Spacing.* What remains is spread evenly over the time until the limit is whole again: `time / (remaining + 1)`. Under a
//! window this uses up the limit just when the window ends. Under a bucket the time until it is full follows from what
//! is missing, so the level settles at half: requests leave at the rate of the limit, and half of the burst is left
//! for what is not yet known. A client that shares its key sends its [share](super::share) of this.

use super::adaptive_rate::AdaptiveRate;
use super::random::Random;
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
pub(super) enum Answer {
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
    random: Random,
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
    share: Share,
    adaptive: AdaptiveRate,
}

/// The last known state of the tightest limit.
#[derive(Clone, Copy, Debug)]
struct LastState {
    departure: Departure,
    limit: LimitHint,
    /// The latest time at which it resets, if it is a window.
    window_ends_ns: Option<u64>,
    /// Whether its last reset made most of it available at once, which a sliding window does not.
    resets_at_once: bool,
}

/// When the next request may leave, by one limit.
struct Spacing {
    interval_ns: u64,
    /// The time until the limit has anything left.
    empty_for_ns: Option<u64>,
}

impl Pace {
    pub(super) fn new(ceiling_ns: u64, random: Random) -> Pace {
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
    pub(super) fn observe(&mut self, departure: Departure, answer: Answer, hint: &ServerHint, now_ns: u64) -> bool {
        self.probe_until_ns = 0;
        match answer {
            Answer::Accepted => self.adaptive.accepted(now_ns),
            Answer::Refused => {
                self.adaptive.refused(now_ns);
                self.share.refused();
            }
            Answer::Failed => return false,
        }
        let paused_until_ns = self.pause.until_ns;
        if let (Answer::Refused, Some(wait)) = (answer, hint.retry_after) {
            let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
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

    fn observe_limits(&mut self, departure: Departure, answer: Answer, hint: &ServerHint, now_ns: u64) {
        if self.last.is_some_and(|last| last.departure.number > departure.number) {
            // An older state than the last known.
            return;
        }
        let tightest = hint.limits.iter().max_by_key(|limit| self.spacing(limit, departure, now_ns).interval_ns);
        let Some(limit) = tightest else {
            self.spacing_ns = 0;
            return;
        };
        let kind = self.kind(limit, departure);
        if answer == Answer::Accepted {
            self.measure_share(limit, kind, departure);
        }
        let spacing = self.spacing(limit, departure, now_ns);
        let window_ends_ns = kind.window_ends_ns();
        let resets_at_once = self.resets_at_once(limit);
        self.last = Some(LastState { departure, limit: *limit, window_ends_ns, resets_at_once });
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
    fn spacing(&self, limit: &LimitHint, departure: Departure, now_ns: u64) -> Spacing {
        // Requests that have left since cannot be counted in this state.
        let unseen = self.departed - departure.number;
        let age_ns = now_ns.saturating_sub(departure.at_ns);
        match self.kind(limit, departure) {
            LimitKind::Bucket { quota, unit_ns } => self.bucket_spacing(limit, quota, unit_ns, unseen, age_ns),
            LimitKind::Window { ends_ns } => self.window_spacing(limit, ends_ns.saturating_sub(now_ns), unseen),
            LimitKind::Unknown => Spacing { interval_ns: 0, empty_for_ns: None },
        }
    }

    fn bucket_spacing(&self, limit: &LimitHint, quota: u64, unit_ns: u128, unseen: u64, age_ns: u64) -> Spacing {
        let own_unit_ns = self.share.times_all(unit_ns).max(1);
        let bounded_unit_ns = u64::try_from(own_unit_ns).unwrap_or(u64::MAX);
        let longest_ns = own_unit_ns + u128::from(self.share.of_others(bounded_unit_ns)) * u128::from(SLOWEST - 1);
        let refilled = u64::try_from(u128::from(age_ns) / own_unit_ns).unwrap_or(u64::MAX);
        let level = limit.remaining.saturating_add(refilled).min(quota).saturating_sub(unseen);
        let until_full_ns = u128::from(quota - level) * unit_ns;
        let spacing_ns = self.share.times_all(until_full_ns / (u128::from(level) + 1)).min(longest_ns);
        // Above three quarters nothing waits; the spacing begins gradually.
        let (free, quarter) = (u128::from(quota) * 3 / 4, (u128::from(quota) / 4).max(1));
        let below = free.saturating_sub(u128::from(level)).min(quarter);
        let spacing_ns = if quota < 4 { spacing_ns } else { spacing_ns * below / quarter };
        Spacing { interval_ns: u64::try_from(spacing_ns).unwrap_or(u64::MAX), empty_for_ns: None }
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

    /// Compares a state of a limit with the previous one.
    fn measure_share(&mut self, limit: &LimitHint, kind: LimitKind, departure: Departure) {
        let Some(last) = self.last.filter(|last| last.limit.name == limit.name) else { return };
        let own = departure.number - last.departure.number;
        let elapsed_ns = departure.at_ns.saturating_sub(last.departure.at_ns);
        if elapsed_ns > IDLE_NS && elapsed_ns > self.interval_ns().saturating_mul(8) {
            self.share = Share::unknown();
            return;
        }
        let used = i128::from(last.limit.remaining) - i128::from(limit.remaining);
        match kind {
            LimitKind::Bucket { quota, .. } if limit.remaining.saturating_add(own) >= quota => self.share.unused(own),
            LimitKind::Bucket { unit_ns, .. } => {
                let refilled = u128::from(elapsed_ns) * 1_000 / unit_ns.max(1);
                let used = (i128::try_from(refilled).unwrap_or(i128::MAX)).saturating_add(used * 1_000);
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

impl Pace {
    /// Returns how a limit becomes available again, by its state and by what was seen of it before.
    fn kind(&self, limit: &LimitHint, departure: Departure) -> LimitKind {
        let reset_ns = limit.reset.map(nanos);
        let known = self.last.filter(|last| last.limit.name == limit.name);
        let (Some(quota), Some(window_ns)) = (limit.quota, limit.window.map(nanos)) else {
            let ends = |reset_ns| window_end(known, departure.at_ns, reset_ns, None);
            return reset_ns.map_or(LimitKind::Unknown, |reset_ns| LimitKind::Window { ends_ns: ends(reset_ns) });
        };
        let unit_ns = (u128::from(window_ns) / u128::from(quota)).max(1);
        // Times are whole seconds, rounded up.
        let is_late = reset_ns.is_some_and(|reset_ns| u128::from(reset_ns) > unit_ns + 2 * u128::from(S_NS));
        let was_window = known.is_some_and(|last| last.window_ends_ns.is_some());
        let has_reset = known.is_some_and(|last| last.has_reset(limit, unit_ns, departure));
        if !is_late && !was_window && !has_reset {
            return LimitKind::Bucket { quota, unit_ns };
        }
        let stated_ns = window_end(known, departure.at_ns, reset_ns.unwrap_or(window_ns), Some(window_ns));
        let from_reset_ns = departure.at_ns.saturating_add(window_ns);
        LimitKind::Window { ends_ns: if has_reset { stated_ns.min(from_reset_ns) } else { stated_ns } }
    }
}

impl Pace {
    fn resets_at_once(&self, limit: &LimitHint) -> bool {
        match self.last.filter(|last| last.limit.name == limit.name) {
            Some(last) if limit.remaining > last.limit.remaining => {
                limit.quota.is_some_and(|quota| limit.remaining >= quota / 2)
            }
            Some(last) => last.resets_at_once,
            None => false,
        }
    }
}

/// Returns the latest time at which a window ends. Times are rounded up to seconds, so of several statements about one
/// window the earliest is the most precise.
fn window_end(known: Option<LastState>, at_ns: u64, reset_ns: u64, window_ns: Option<u64>) -> u64 {
    let stated_ns = at_ns.saturating_add(reset_ns);
    let known = known.filter(|last| last.resets_at_once);
    match (known.and_then(|last| last.window_ends_ns), window_ns) {
        (Some(known_ns), _) if known_ns > at_ns && stated_ns < known_ns.saturating_add(S_NS) => known_ns.min(stated_ns),
        (Some(known_ns), Some(window_ns)) if known_ns <= at_ns && known_ns.saturating_add(window_ns) > at_ns => {
            stated_ns.min(known_ns.saturating_add(window_ns))
        }
        _ => stated_ns,
    }
}

impl LastState {
    /// Whether more has become available than a bucket would have refilled.
    fn has_reset(&self, limit: &LimitHint, unit_ns: u128, departure: Departure) -> bool {
        let elapsed_ns = u128::from(departure.at_ns.saturating_sub(self.departure.at_ns));
        let refilled = u64::try_from(elapsed_ns / unit_ns).unwrap_or(u64::MAX);
        limit.remaining > self.limit.remaining.saturating_add(refilled).saturating_add(limit.quota.unwrap_or(0) / 8 + 2)
    }
}

impl LimitKind {
    fn window_ends_ns(&self) -> Option<u64> {
        match self {
            LimitKind::Window { ends_ns } => Some(*ends_ns),
            LimitKind::Bucket { .. } | LimitKind::Unknown => None,
        }
    }
}

fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// How a limit becomes available again.
#[derive(Clone, Copy)]
enum LimitKind {
    /// One unit after the other. `unit_ns` is the time of one.
    Bucket {
        quota: u64,
        unit_ns: u128,
    },
    /// All of it at once, or at an unknown pace.
    Window {
        ends_ns: u64,
    },
    Unknown,
}
