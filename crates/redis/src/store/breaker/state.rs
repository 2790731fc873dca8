//! A circuit breaker as a state machine. Time is an argument.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::random::Random;

/// The settings of a circuit breaker.
#[derive(Clone, Copy, Debug)]
pub struct BreakerSettings {
    /// The number of consecutive failures that opens it.
    pub failures_in_a_row: u32,
    /// The window of the failure rate.
    pub window: Duration,
    /// The failure rate in the window that opens it, in percent.
    pub failure_percent: u32,
    /// The minimum number of calls in the window for the failure rate to apply.
    pub calls_at_least: u32,
    /// The pause before the first probe.
    pub first_pause: Duration,
    /// The maximum pause: each failed probe doubles it, up to this.
    pub longest_pause: Duration,
    /// The number of trial calls admitted to a shard that has answered a probe. As many must succeed before the breaker
    /// closes.
    pub trials: u32,
    /// The time after which trial calls without an outcome are replaced by new ones.
    pub trial_patience: Duration,
}

impl Default for BreakerSettings {
    fn default() -> BreakerSettings {
        BreakerSettings {
            failures_in_a_row: 5,
            window: Duration::from_secs(5),
            failure_percent: 50,
            calls_at_least: 20,
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            trials: 3,
            trial_patience: Duration::from_secs(1),
        }
    }
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerState {
    /// All calls are admitted.
    #[default]
    Closed,
    /// No calls are admitted, because the shard failed.
    Open,
    /// A few trial calls are admitted.
    HalfOpen,
}

/// The circuit breaker of one shard.
#[derive(Debug)]
pub(crate) struct Breaker {
    settings: BreakerSettings,
    state: State,
    /// The number of state changes, so that calls admitted before a change do not count after it.
    generation: u64,
    /// The number of consecutive failed probes.
    failed_probes: u32,
    random: Random,
}

#[derive(Debug)]
enum State {
    Closed { in_a_row: u32, recent: Recent },
    Open { probe_at: Instant },
    HalfOpen { since: Instant, admitted: u32, succeeded: u32 },
}

/// Proof that a call was admitted; the outcome of the call is reported with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    generation: u64,
}

/// A change of state that a call caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerChange {
    Opened,
    /// A trial call failed. This is not reported, but probes start again.
    Reopened,
    Closed,
}

impl Breaker {
    pub(crate) fn new(settings: BreakerSettings, seed: u64, now: Instant) -> Breaker {
        let random = Random::new(seed);
        let state = State::Closed { in_a_row: 0, recent: Recent::new(now) };
        Breaker { settings, state, generation: 0, failed_probes: 0, random }
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Admits a call, or returns `None`.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<Ticket> {
        let (settings, ticket) = (&self.settings, Ticket { generation: self.generation });
        match &mut self.state {
            State::Closed { .. } => Some(ticket),
            State::Open { .. } => None,
            State::HalfOpen { since, admitted, .. } => {
                if *admitted >= settings.trials && now >= *since + settings.trial_patience {
                    (*since, *admitted) = (now, 0);
                }
                *admitted += 1;
                (*admitted <= settings.trials).then_some(ticket)
            }
        }
    }

    /// Counts a call that was answered in time.
    pub(crate) fn record_success(&mut self, ticket: Ticket, now: Instant) -> Option<BreakerChange> {
        if ticket.generation != self.generation {
            return None;
        }
        match &mut self.state {
            State::Closed { in_a_row, recent } => {
                *in_a_row = 0;
                recent.count(self.settings.window, now, false);
                None
            }
            State::Open { .. } => None,
            State::HalfOpen { succeeded, .. } => {
                *succeeded += 1;
                (*succeeded >= self.settings.trials).then(|| self.close(now))
            }
        }
    }

    /// Counts a call that failed or was answered too late.
    pub(crate) fn record_failure(&mut self, ticket: Ticket, now: Instant) -> Option<BreakerChange> {
        if ticket.generation != self.generation {
            return None;
        }
        let settings = &self.settings;
        let opens = match &mut self.state {
            State::Closed { in_a_row, recent } => {
                *in_a_row += 1;
                let (calls, failures) = recent.count(settings.window, now, true);
                let too_many = calls >= settings.calls_at_least && failures * 100 >= calls * settings.failure_percent;
                *in_a_row >= settings.failures_in_a_row || too_many
            }
            State::Open { .. } => false,
            State::HalfOpen { .. } => {
                // The pause after a failed trial is longer than after a first failure.
                self.failed_probes = self.failed_probes.saturating_add(1);
                self.open(now);
                return Some(BreakerChange::Reopened);
            }
        };
        opens.then(|| {
            self.failed_probes = 0;
            self.open(now);
            BreakerChange::Opened
        })
    }

    /// Returns the time of the next probe; `None` if the breaker is not open.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { probe_at } => Some(probe_at),
            State::Closed { .. } | State::HalfOpen { .. } => None,
        }
    }

    /// Records the outcome of a probe.
    pub(crate) fn record_probe(&mut self, answered: bool, now: Instant) {
        if !matches!(self.state, State::Open { .. }) {
            return;
        }
        if answered {
            self.generation += 1;
            self.state = State::HalfOpen { since: now, admitted: 0, succeeded: 0 };
        } else {
            self.failed_probes = self.failed_probes.saturating_add(1);
            self.open(now);
        }
    }

    fn open(&mut self, now: Instant) {
        let doubled = self.settings.first_pause.saturating_mul(1 << self.failed_probes.min(20));
        let pause = doubled.min(self.settings.longest_pause);
        // Many instances lose a shard at the same time, and must not all retry at the same time.
        let jitter = pause / 1024 * self.random.below(256);
        self.generation += 1;
        self.state = State::Open { probe_at: now + pause + jitter };
    }

    fn close(&mut self, now: Instant) -> BreakerChange {
        self.generation += 1;
        self.failed_probes = 0;
        self.state = State::Closed { in_a_row: 0, recent: Recent::new(now) };
        BreakerChange::Closed
    }
}

/// The calls and failures of the last window, in two halves.
#[derive(Clone, Copy, Debug)]
struct Recent {
    started: Instant,
    previous: Counts,
    current: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    calls: u32,
    failures: u32,
}

impl Recent {
    fn new(now: Instant) -> Recent {
        Recent { started: now, previous: Counts::default(), current: Counts::default() }
    }

    /// Counts a call, and returns the number of calls and of failures in the window.
    fn count(&mut self, window: Duration, now: Instant, failed: bool) -> (u32, u32) {
        let half = window / 2;
        let age = now.saturating_duration_since(self.started);
        if age >= half {
            let previous = if age < window { self.current } else { Counts::default() };
            *self = Recent { started: now, previous, current: Counts::default() };
        }
        self.current.calls = self.current.calls.saturating_add(1);
        self.current.failures = self.current.failures.saturating_add(u32::from(failed));
        (self.previous.calls + self.current.calls, self.previous.failures + self.current.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BreakerSettings = BreakerSettings {
        failures_in_a_row: 3,
        window: Duration::from_secs(10),
        failure_percent: 50,
        calls_at_least: 10,
        first_pause: Duration::from_millis(100),
        longest_pause: Duration::from_millis(1000),
        trials: 2,
        trial_patience: Duration::from_millis(500),
    };

    fn closed_breaker(now: Instant) -> Breaker {
        Breaker::new(SETTINGS, 1, now)
    }

    fn open_breaker(now: Instant) -> Breaker {
        let mut breaker = closed_breaker(now);
        let ticket = breaker.admit(now).unwrap();
        assert_eq!(breaker.record_failure(ticket, now), None);
        assert_eq!(breaker.record_failure(ticket, now), None);
        assert_eq!(breaker.record_failure(ticket, now), Some(BreakerChange::Opened));
        breaker
    }

    #[test]
    fn consecutive_failures_open_the_breaker() {
        let now = Instant::now();
        let mut breaker = open_breaker(now);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(breaker.admit(now + Duration::from_secs(60)), None);
    }

    #[test]
    fn success_resets_the_count_of_consecutive_failures() {
        let now = Instant::now();
        let mut breaker = closed_breaker(now);
        let ticket = breaker.admit(now).unwrap();
        for _ in 0..4 {
            assert_eq!(breaker.record_failure(ticket, now), None);
            assert_eq!(breaker.record_failure(ticket, now), None);
            (0..4).for_each(|_| assert_eq!(breaker.record_success(ticket, now), None));
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn failure_rate_opens_the_breaker_when_there_are_enough_calls() {
        let now = Instant::now();
        let mut breaker = closed_breaker(now);
        let ticket = breaker.admit(now).unwrap();
        for _ in 0..4 {
            assert_eq!(breaker.record_failure(ticket, now), None);
            assert_eq!(breaker.record_success(ticket, now), None);
        }
        assert_eq!(breaker.record_success(ticket, now), None);
        assert_eq!(breaker.record_failure(ticket, now), Some(BreakerChange::Opened));
    }

    #[test]
    fn failures_before_the_window_do_not_count() {
        let now = Instant::now();
        let mut breaker = closed_breaker(now);
        let ticket = breaker.admit(now).unwrap();
        for _ in 0..4 {
            breaker.record_failure(ticket, now);
            breaker.record_success(ticket, now);
        }
        let later = now + Duration::from_secs(11);
        breaker.record_success(ticket, later);
        assert_eq!(breaker.record_failure(ticket, later), None);
        assert_eq!(breaker.record_failure(ticket, later), None);
    }

    #[test]
    fn pauses_between_probes_double_and_have_jitter() {
        let now = Instant::now();
        let mut breaker = open_breaker(now);
        let mut expected = Duration::from_millis(100);
        for _ in 0..8 {
            let pause = breaker.probe_at().unwrap() - now;
            assert!(pause >= expected && pause <= expected * 5 / 4, "{pause:?} {expected:?}");
            breaker.record_probe(false, now);
            expected = (expected * 2).min(Duration::from_millis(1000));
        }
        let first_pauses = (0..20).map(|seed| {
            let mut breaker = Breaker::new(SETTINGS, seed, now);
            (0..3).for_each(|_| {
                breaker.record_failure(Ticket { generation: 0 }, now);
            });
            breaker.probe_at().unwrap()
        });
        assert!(first_pauses.collect::<std::collections::HashSet<_>>().len() > 10);
    }

    #[test]
    fn breaker_closes_after_successful_trials() {
        let now = Instant::now();
        let mut breaker = open_breaker(now);
        breaker.record_probe(true, now);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.probe_at(), None);
        let (first, second) = (breaker.admit(now).unwrap(), breaker.admit(now).unwrap());
        assert_eq!(breaker.admit(now), None);
        assert_eq!(breaker.record_success(first, now), None);
        assert_eq!(breaker.record_success(second, now), Some(BreakerChange::Closed));
        assert!(breaker.admit(now).is_some());
    }

    #[test]
    fn failed_trial_reopens_the_breaker_for_longer() {
        let now = Instant::now();
        let mut breaker = open_breaker(now);
        breaker.record_probe(true, now);
        let ticket = breaker.admit(now).unwrap();
        assert_eq!(breaker.record_failure(ticket, now), Some(BreakerChange::Reopened));
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(breaker.probe_at().unwrap() - now >= Duration::from_millis(200));
    }

    #[test]
    fn outcomes_of_calls_before_a_state_change_are_ignored() {
        let now = Instant::now();
        let mut breaker = closed_breaker(now);
        let old = breaker.admit(now).unwrap();
        (0..3).for_each(|_| {
            breaker.record_failure(old, now);
        });
        breaker.record_probe(true, now);
        assert_eq!(breaker.record_failure(old, now), None);
        assert_eq!(breaker.record_success(old, now), None);
        assert_eq!(breaker.record_success(old, now), None);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
    }

    #[test]
    fn trials_without_an_outcome_are_replaced() {
        let now = Instant::now();
        let mut breaker = open_breaker(now);
        breaker.record_probe(true, now);
        assert!(breaker.admit(now).is_some() && breaker.admit(now).is_some());
        assert_eq!(breaker.admit(now + Duration::from_millis(499)), None);
        assert!(breaker.admit(now + Duration::from_millis(500)).is_some());
    }
}
