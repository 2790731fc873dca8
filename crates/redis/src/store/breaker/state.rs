//! When a shard is in trouble, and when it is over: a state machine over a given time.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::random::Random;

/// When a breaker opens, and how it closes again.
#[derive(Clone, Copy, Debug)]
pub struct BreakerSettings {
    /// So many failures in a row open it.
    pub failures_in_a_row: u32,
    /// The span over which the share of failures is taken.
    pub window: Duration,
    /// This share of failures in the window opens it, in percent.
    pub failure_percent: u32,
    /// With fewer calls than this in the window the share says nothing.
    pub calls_at_least: u32,
    /// How long it waits before the first probe.
    pub first_pause: Duration,
    /// Each probe that fails doubles the pause, up to this.
    pub longest_pause: Duration,
    /// So many calls are let through to try a shard that has answered a probe,
    /// and so many must succeed before all are.
    pub trials: u32,
    /// Trials that were never heard of again are given out anew after this.
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

/// Whether a shard is asked at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerState {
    /// It is: all is well.
    #[default]
    Closed,
    /// It is not: it failed.
    Open,
    /// A few calls try it.
    HalfOpen,
}

/// A breaker of one shard.
#[derive(Debug)]
pub(crate) struct Breaker {
    settings: BreakerSettings,
    state: State,
    /// Counts the changes of state, so that what was sent before one says nothing after it.
    generation: u64,
    /// How many probes have failed in a row.
    failed_probes: u32,
    random: Random,
}

#[derive(Debug)]
enum State {
    Closed { in_a_row: u32, recent: Recent },
    Open { probe_at: Instant },
    HalfOpen { since: Instant, given: u32, succeeded: u32 },
}

/// Proof that a call was let through, to be handed back with its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    generation: u64,
}

/// A change that somebody should hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Opened,
    /// It was about to close. Nobody has to hear of that, but probes begin again.
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

    /// Lets a call through, or does not.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<Ticket> {
        let (settings, ticket) = (&self.settings, Ticket { generation: self.generation });
        match &mut self.state {
            State::Closed { .. } => Some(ticket),
            State::Open { .. } => None,
            State::HalfOpen { since, given, .. } => {
                if *given >= settings.trials && now >= *since + settings.trial_patience {
                    (*since, *given) = (now, 0);
                }
                *given += 1;
                (*given <= settings.trials).then_some(ticket)
            }
        }
    }

    /// A call was answered in time.
    pub(crate) fn succeeded(&mut self, ticket: Ticket, now: Instant) -> Option<Change> {
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

    /// A call failed, or was answered too late.
    pub(crate) fn failed(&mut self, ticket: Ticket, now: Instant) -> Option<Change> {
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
                // Who fails its trial waits longer than who fails out of the blue.
                self.failed_probes = self.failed_probes.saturating_add(1);
                self.open(now);
                return Some(Change::Reopened);
            }
        };
        opens.then(|| {
            self.failed_probes = 0;
            self.open(now);
            Change::Opened
        })
    }

    /// When to send the next probe; `None` if there is nothing to find out.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { probe_at } => Some(probe_at),
            State::Closed { .. } | State::HalfOpen { .. } => None,
        }
    }

    /// What became of a probe.
    pub(crate) fn probed(&mut self, answered: bool, now: Instant) {
        if !matches!(self.state, State::Open { .. }) {
            return;
        }
        if answered {
            self.generation += 1;
            self.state = State::HalfOpen { since: now, given: 0, succeeded: 0 };
        } else {
            self.failed_probes = self.failed_probes.saturating_add(1);
            self.open(now);
        }
    }

    fn open(&mut self, now: Instant) {
        let doubled = self.settings.first_pause.saturating_mul(1 << self.failed_probes.min(20));
        let pause = doubled.min(self.settings.longest_pause);
        // Many instances lose a shard at the same time. They should not all come back at the same time.
        let jitter = pause / 1024 * self.random.below(256);
        self.generation += 1;
        self.state = State::Open { probe_at: now + pause + jitter };
    }

    fn close(&mut self, now: Instant) -> Change {
        self.generation += 1;
        self.failed_probes = 0;
        self.state = State::Closed { in_a_row: 0, recent: Recent::new(now) };
        Change::Closed
    }
}

/// Calls and failures of the last window, in two halves.
#[derive(Clone, Copy, Debug)]
struct Recent {
    began: Instant,
    before: Counts,
    present: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    calls: u32,
    failures: u32,
}

impl Recent {
    fn new(now: Instant) -> Recent {
        Recent { began: now, before: Counts::default(), present: Counts::default() }
    }

    /// Counts a call, and returns how many there were, and how many of them failed.
    fn count(&mut self, window: Duration, now: Instant, failed: bool) -> (u32, u32) {
        let half = window / 2;
        let age = now.saturating_duration_since(self.began);
        if age >= half {
            let before = if age < window { self.present } else { Counts::default() };
            *self = Recent { began: now, before, present: Counts::default() };
        }
        self.present.calls = self.present.calls.saturating_add(1);
        self.present.failures = self.present.failures.saturating_add(u32::from(failed));
        (self.before.calls + self.present.calls, self.before.failures + self.present.failures)
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

    fn closed(now: Instant) -> Breaker {
        Breaker::new(SETTINGS, 1, now)
    }

    fn opened(now: Instant) -> Breaker {
        let mut breaker = closed(now);
        let ticket = breaker.admit(now).unwrap();
        assert_eq!(breaker.failed(ticket, now), None);
        assert_eq!(breaker.failed(ticket, now), None);
        assert_eq!(breaker.failed(ticket, now), Some(Change::Opened));
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(breaker.admit(now + Duration::from_secs(60)), None);
    }

    #[test]
    fn a_success_begins_the_row_anew() {
        let now = Instant::now();
        let mut breaker = closed(now);
        let ticket = breaker.admit(now).unwrap();
        for _ in 0..4 {
            assert_eq!(breaker.failed(ticket, now), None);
            assert_eq!(breaker.failed(ticket, now), None);
            (0..4).for_each(|_| assert_eq!(breaker.succeeded(ticket, now), None));
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn a_share_of_failures_opens_it_once_there_are_enough_calls() {
        let now = Instant::now();
        let mut breaker = closed(now);
        let ticket = breaker.admit(now).unwrap();
        for _ in 0..4 {
            assert_eq!(breaker.failed(ticket, now), None);
            assert_eq!(breaker.succeeded(ticket, now), None);
        }
        assert_eq!(breaker.succeeded(ticket, now), None);
        assert_eq!(breaker.failed(ticket, now), Some(Change::Opened));
    }

    #[test]
    fn what_is_long_past_does_not_count() {
        let now = Instant::now();
        let mut breaker = closed(now);
        let ticket = breaker.admit(now).unwrap();
        for _ in 0..4 {
            breaker.failed(ticket, now);
            breaker.succeeded(ticket, now);
        }
        let later = now + Duration::from_secs(11);
        breaker.succeeded(ticket, later);
        assert_eq!(breaker.failed(ticket, later), None);
        assert_eq!(breaker.failed(ticket, later), None);
    }

    #[test]
    fn probes_come_ever_more_rarely_and_never_all_at_once() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let mut expected = Duration::from_millis(100);
        for _ in 0..8 {
            let pause = breaker.probe_at().unwrap() - now;
            assert!(pause >= expected && pause <= expected * 5 / 4, "{pause:?} {expected:?}");
            breaker.probed(false, now);
            expected = (expected * 2).min(Duration::from_millis(1000));
        }
        let first_pauses = (0..20).map(|seed| {
            let mut breaker = Breaker::new(SETTINGS, seed, now);
            (0..3).for_each(|_| {
                breaker.failed(Ticket { generation: 0 }, now);
            });
            breaker.probe_at().unwrap()
        });
        assert!(first_pauses.collect::<std::collections::HashSet<_>>().len() > 10);
    }

    #[test]
    fn a_few_try_it_before_all_are_let_through() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.probed(true, now);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.probe_at(), None);
        let (first, second) = (breaker.admit(now).unwrap(), breaker.admit(now).unwrap());
        assert_eq!(breaker.admit(now), None);
        assert_eq!(breaker.succeeded(first, now), None);
        assert_eq!(breaker.succeeded(second, now), Some(Change::Closed));
        assert!(breaker.admit(now).is_some());
    }

    #[test]
    fn a_trial_that_fails_opens_it_again_for_longer() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.probed(true, now);
        let ticket = breaker.admit(now).unwrap();
        assert_eq!(breaker.failed(ticket, now), Some(Change::Reopened));
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(breaker.probe_at().unwrap() - now >= Duration::from_millis(200));
    }

    #[test]
    fn what_was_sent_before_says_nothing_after() {
        let now = Instant::now();
        let mut breaker = closed(now);
        let old = breaker.admit(now).unwrap();
        (0..3).for_each(|_| {
            breaker.failed(old, now);
        });
        breaker.probed(true, now);
        assert_eq!(breaker.failed(old, now), None);
        assert_eq!(breaker.succeeded(old, now), None);
        assert_eq!(breaker.succeeded(old, now), None);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
    }

    #[test]
    fn trials_never_heard_of_again_are_given_out_anew() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.probed(true, now);
        assert!(breaker.admit(now).is_some() && breaker.admit(now).is_some());
        assert_eq!(breaker.admit(now + Duration::from_millis(499)), None);
        assert!(breaker.admit(now + Duration::from_millis(500)).is_some());
    }
}
