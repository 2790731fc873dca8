//! Rates, latencies and headroom from counters that were read once a second.

use std::collections::{BTreeMap, VecDeque};

use crate::rule_metrics::{DecisionTimes, RuleCounts, TotalCounts};

const S_NS: u64 = 1_000_000_000;

/// Latencies and headroom are measured over this many intervals: within one, a quiet service decides too little.
const MEASURED_INTERVALS: usize = 10;

/// The intervals of the history: a minute.
pub(super) const HISTORY_LENGTH: usize = 60;

/// Computes rates from successive counts.
#[derive(Debug, Default)]
pub(super) struct RateSampler {
    /// The recent counts, the newest last.
    counts: VecDeque<TimedCounts>,
    pub(super) history: RateHistory,
}

#[derive(Debug)]
struct TimedCounts {
    time_ns: u64,
    counts: TotalCounts,
}

/// The rates of the last intervals, the newest last.
#[derive(Debug, Default)]
pub(super) struct RateHistory {
    pub(super) all: VecDeque<PassRates>,
    pub(super) rules: BTreeMap<Box<str>, VecDeque<PassRates>>,
}

/// Requests a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PassRates {
    pub(super) allowed: u64,
    pub(super) refused: u64,
    /// The allowed requests that a shadow rule would have refused.
    pub(super) would_refuse: u64,
}

/// The figures of the last interval, and of the last intervals.
#[derive(Debug)]
pub(super) struct LiveRates {
    /// The length of the last interval; `None` before the second reading.
    pub(super) measured_ns: Option<u64>,
    pub(super) all: PassRates,
    pub(super) rules: BTreeMap<Box<str>, RuleRates>,
    pub(super) latency: DecisionTimes,
    /// The length of the intervals in which latency and headroom were measured.
    pub(super) latency_over_ns: u64,
    /// The counts since the start.
    pub(super) totals: TotalCounts,
}

/// The figures of one rule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RuleRates {
    pub(super) passed: PassRates,
    /// The counts of the last intervals.
    pub(super) recent: RuleCounts,
}

impl RateSampler {
    /// Adds the counts at that time, and returns the figures since the earlier ones.
    pub(super) fn add(&mut self, time_ns: u64, counts: TotalCounts) -> LiveRates {
        let last = self.counts.back();
        let span_ns = last.map(|last| time_ns.saturating_sub(last.time_ns)).filter(|span_ns| *span_ns > 0);
        let before = last.filter(|_| span_ns.is_some()).map(|last| &last.counts);
        let all = before.map_or_else(PassRates::default, |before| {
            let since = |now: u64, before: u64| per_second(now.saturating_sub(before), span_ns);
            let (allowed, refused) = (since(counts.allowed, before.allowed), since(counts.refused, before.refused));
            PassRates { allowed, refused, would_refuse: 0 }
        });
        let oldest = self.counts.front().unwrap_or(const { &TimedCounts::EMPTY });
        let mut rules = BTreeMap::new();
        for (name, now) in &counts.rules {
            let recent =
                if self.counts.is_empty() { RuleCounts::default() } else { now.since(oldest.counts.rule(name)) };
            let last = before.map_or_else(RuleCounts::default, |before| now.since(before.rule(name)));
            let figures = RuleRates { passed: PassRates::of(last, span_ns), recent };
            rules.insert(name.clone(), figures);
        }
        let (latency, latency_over_ns) = match self.counts.front() {
            Some(oldest) => (counts.times.since(&oldest.counts.times), time_ns.saturating_sub(oldest.time_ns)),
            None => (DecisionTimes::default(), 0),
        };
        if span_ns.is_some() {
            self.history.add(all, &rules);
        }
        let totals = counts.clone();
        self.counts.push_back(TimedCounts { time_ns, counts });
        if self.counts.len() > MEASURED_INTERVALS {
            self.counts.pop_front();
        }
        LiveRates { measured_ns: span_ns, all, rules, latency, latency_over_ns, totals }
    }
}

impl PassRates {
    fn of(counts: RuleCounts, span_ns: Option<u64>) -> PassRates {
        PassRates {
            allowed: per_second(counts.allowed(), span_ns),
            refused: per_second(counts.refused, span_ns),
            would_refuse: per_second(counts.would_refuse, span_ns),
        }
    }
}

impl TimedCounts {
    const EMPTY: TimedCounts = TimedCounts { time_ns: 0, counts: TotalCounts::EMPTY };
}

impl RateHistory {
    /// Adds an interval. Rules that no longer exist are dropped.
    fn add(&mut self, all: PassRates, rules: &BTreeMap<Box<str>, RuleRates>) {
        push(&mut self.all, all);
        self.rules.retain(|name, _| rules.contains_key(name));
        for (name, figures) in rules {
            push(self.rules.entry(name.clone()).or_default(), figures.passed);
        }
    }
}

fn push(rates: &mut VecDeque<PassRates>, newest: PassRates) {
    if rates.len() == HISTORY_LENGTH {
        rates.pop_front();
    }
    rates.push_back(newest);
}

/// Returns a count as a rate, rounded: the interval is never exactly a second.
fn per_second(count: u64, span_ns: Option<u64>) -> u64 {
    let Some(span_ns) = span_ns else { return 0 };
    let rate = (u128::from(count) * u128::from(S_NS) + u128::from(span_ns / 2)) / u128::from(span_ns);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(checked: u64, refused: u64) -> TotalCounts {
        let rule = RuleCounts { checked, refused, ..RuleCounts::default() };
        TotalCounts {
            allowed: checked - refused,
            refused,
            rules: [(Box::from("a"), rule)].into(),
            ..TotalCounts::default()
        }
    }

    fn passed(allowed: u64, refused: u64) -> PassRates {
        PassRates { allowed, refused, would_refuse: 0 }
    }

    #[test]
    fn first_reading_has_totals_and_no_rates() {
        let mut sampler = RateSampler::default();
        let first = sampler.add(5 * S_NS, counts(100, 10));
        assert_eq!((first.measured_ns, first.all, first.totals.allowed), (None, PassRates::default(), 90));
        assert_eq!(first.rules["a"].recent, RuleCounts::default());
        assert!(sampler.history.all.is_empty());
    }

    #[test]
    fn rates_are_of_the_last_interval() {
        let mut sampler = RateSampler::default();
        sampler.add(0, counts(100, 10));
        sampler.add(S_NS, counts(200, 10));
        let rates = sampler.add(S_NS + S_NS / 2, counts(230, 15));
        assert_eq!((rates.measured_ns, rates.all), (Some(S_NS / 2), passed(50, 10)));
        assert_eq!(rates.rules["a"].passed, passed(50, 10));
        assert_eq!(rates.rules["a"].recent.checked, 130);
        assert_eq!(sampler.history.rules["a"], [passed(100, 0), passed(50, 10)]);
    }

    #[test]
    fn stopped_clock_measures_nothing() {
        let mut sampler = RateSampler::default();
        sampler.add(7, counts(0, 0));
        let rates = sampler.add(7, counts(10, 0));
        assert_eq!((rates.measured_ns, rates.all), (None, PassRates::default()));
    }

    #[test]
    fn history_is_a_minute_and_forgets_removed_rules() {
        let mut sampler = RateSampler::default();
        (0..100).for_each(|at| drop(sampler.add(at * S_NS, counts(at, 0))));
        assert_eq!((sampler.history.all.len(), sampler.history.rules["a"].len()), (HISTORY_LENGTH, HISTORY_LENGTH));
        sampler.add(100 * S_NS, TotalCounts::default());
        assert!(sampler.history.rules.is_empty());
    }
}
