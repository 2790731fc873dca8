use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::limits::{Key, Rule};

/// A token, in units of which a limit of one a minute refills one in a microsecond.
const TOKEN: u64 = 60_000_000;

/// A request that was admitted at an unknown time within a span. Times are in microseconds since 1970: processes share no
/// other clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Before the request was made.
    pub(crate) from_us: u64,
    /// After its decision was known.
    pub(crate) until_us: u64,
    pub(crate) cost: u64,
}

/// What instances have admitted, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admitted(BTreeMap<Key, Vec<Admission>>);

pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap()
}

impl Admitted {
    pub(crate) fn add(&mut self, key: Key, admission: Admission) {
        self.0.entry(key).or_default().push(admission);
    }

    pub(crate) fn merge(&mut self, other: Admitted) {
        other.0.into_iter().for_each(|(key, log)| self.0.entry(key).or_default().extend(log));
    }

    pub(crate) fn keys(&self, rule: Rule) -> usize {
        self.0.keys().filter(|key| key.rule == rule).count()
    }

    /// Returns the sum of the costs for keys of a limit whose decisions became known between two times.
    pub(crate) fn between(&self, rule: Rule, from_us: u64, until_us: u64) -> u64 {
        let logs = self.0.iter().filter(|(key, _)| key.rule == rule).flat_map(|(_, log)| log);
        logs.filter(|admission| (from_us..until_us).contains(&admission.until_us)).map(|admission| admission.cost).sum()
    }

    /// Returns the largest burst that any key of a limit needs to have been admitted what it was, at the limit's rate; and
    /// how many keys need at least half of the limit's burst.
    pub(crate) fn least_bursts(&self, rule: Rule) -> (u64, usize) {
        let logs = self.0.iter().filter(|(key, _)| key.rule == rule);
        let bursts: Vec<u64> = logs.map(|(_, log)| least_burst(log, rule.amount())).collect();
        let used = bursts.iter().filter(|burst| **burst * 2 >= rule.burst()).count();
        (bursts.into_iter().max().unwrap_or(0), used)
    }

    /// Holds every key to its limit: no more than the burst and what the rate refills, over any span. Returns a
    /// description.
    pub(crate) fn assert_within_limits(&self) -> String {
        let rules = [Rule::Hot, Rule::Cold].into_iter().filter(|rule| self.keys(*rule) > 0);
        let check = |rule: Rule| {
            let (largest, used) = self.least_bursts(rule);
            let (keys, burst) = (self.keys(rule), rule.burst());
            let admitted = self.between(rule, 0, u64::MAX);
            assert!(
                largest <= burst,
                "{rule:?}: a key was admitted {largest} beside the rate, with a burst of {burst}"
            );
            format!(
                "{rule:?}: {admitted} for {keys} keys, within a burst of {largest} of {burst}, {used} keys above half of it"
            )
        };
        rules.map(check).collect::<Vec<_>>().join("; ")
    }
}

/// Returns the smallest burst of a bucket that can have admitted all this at a rate per minute: the most by which the
/// admissions that were certainly within a span exceed what the rate refills.
fn least_burst(log: &[Admission], per_minute: u64) -> u64 {
    let mut by_end = log.to_vec();
    by_end.sort_by_key(|admission| admission.until_us);
    let mut begins: Vec<u64> = log.iter().map(|admission| admission.from_us).collect();
    begins.sort_unstable();
    begins.dedup();
    let most_from = |begin_us: &u64| {
        let mut cost = 0;
        let exceeds = |admission: &Admission| {
            cost += admission.cost;
            (cost * TOKEN).saturating_sub(per_minute * (admission.until_us - begin_us))
        };
        by_end.iter().filter(|admission| admission.from_us >= *begin_us).map(exceeds).max().unwrap_or(0)
    };
    begins.iter().map(most_from).max().unwrap_or(0).div_ceil(TOKEN)
}

impl Admission {
    /// The message of a child.
    pub(crate) fn message(&self, key: u32) -> String {
        format!("admitted {key} {} {} {}", self.from_us, self.until_us, self.cost)
    }

    /// Reads the message of a child, about a key of the hot limit.
    pub(crate) fn parse(message: &str) -> Option<(u32, Admission)> {
        let mut numbers = message.strip_prefix("admitted ")?.split(' ').map(|number| number.parse().ok());
        let mut next = || numbers.next()?;
        let key: u64 = next()?;
        Some((u32::try_from(key).ok()?, Admission { from_us: next()?, until_us: next()?, cost: next()? }))
    }
}

#[test]
fn least_burst_is_the_largest_excess_over_the_rate_within_any_span() {
    let at = |ms: u64, cost| Admission { from_us: ms * 1_000, until_us: ms * 1_000, cost };
    // At 600 a minute a token refills in 100 ms.
    assert_eq!(least_burst(&[at(0, 1), at(100, 1), at(200, 1)], 600), 1);
    assert_eq!(least_burst(&[at(0, 3), at(99, 1)], 600), 4);
    assert_eq!(least_burst(&[at(0, 1), at(5_000, 3), at(5_100, 2), at(9_000, 4)], 600), 4);
    // Any time within the span of an admission is allowed.
    let within = |from_us, until_us, cost| Admission { from_us, until_us, cost };
    assert_eq!(least_burst(&[within(0, 200_000, 3)], 600), 1);
    assert_eq!(least_burst(&[], 600), 0);
}

#[test]
fn admission_survives_its_message() {
    let admission = Admission { from_us: 1, until_us: 2, cost: 3 };
    assert_eq!(Admission::parse(&admission.message(7)), Some((7, admission)));
    assert_eq!(Admission::parse("other"), None);
}
