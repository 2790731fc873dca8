use std::time::{Duration, SystemTime};

/// Admissions this close to each other are logged together.
const TOGETHER_US: u64 = 200;

/// A token, in units of which the rate refills as many in a microsecond as it has tokens in a second.
const TOKEN: u64 = 1_000_000;

/// Requests that were admitted at unknown times within a span. Times are in microseconds since 1970: processes share no
/// other clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Before the requests were made.
    pub(crate) from_us: u64,
    /// After their decisions were known.
    pub(crate) until_us: u64,
    pub(crate) count: u64,
    pub(crate) is_leased: bool,
}

/// What one or more instances have admitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admissions(pub(crate) Vec<Admission>);

pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}

pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap()
}

impl Admissions {
    pub(crate) fn add(&mut self, from_us: u64, until_us: u64, is_leased: bool) {
        if let Some(last) = self.0.last_mut()
            && last.is_leased == is_leased
            && until_us.saturating_sub(last.from_us) < TOGETHER_US
        {
            last.from_us = last.from_us.min(from_us);
            (last.until_us, last.count) = (until_us, last.count + 1);
            return;
        }
        self.0.push(Admission { from_us, until_us, count: 1, is_leased });
    }

    pub(crate) fn merge(&mut self, other: Admissions) {
        self.0.extend(other.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|admission| admission.count).sum()
    }

    pub(crate) fn leased(&self) -> u64 {
        self.0.iter().filter(|admission| admission.is_leased).map(|admission| admission.count).sum()
    }

    /// Returns the number of requests whose decisions became known between two times.
    pub(crate) fn between(&self, from_us: u64, until_us: u64) -> u64 {
        let within = self.0.iter().filter(|admission| (from_us..until_us).contains(&admission.until_us));
        within.map(|admission| admission.count).sum()
    }

    /// Returns the admissions that were certainly not before a time.
    pub(crate) fn since(&self, from_us: u64) -> Admissions {
        Admissions(self.0.iter().copied().filter(|admission| admission.from_us >= from_us).collect())
    }

    /// Returns the longest span of an admission: the uncertainty of its time.
    pub(crate) fn uncertainty(&self) -> Duration {
        let spans = self.0.iter().map(|admission| admission.until_us - admission.from_us);
        Duration::from_micros(spans.max().unwrap_or(0))
    }

    /// Returns the smallest burst of a bucket that can have admitted all this at a rate per second: the most by which the
    /// admissions that were certainly within a span exceed the rate.
    pub(crate) fn least_burst(&self, rate: u64) -> u64 {
        let mut by_end = self.0.clone();
        by_end.sort_by_key(|admission| admission.until_us);
        let mut begins: Vec<u64> = self.0.iter().map(|admission| admission.from_us).collect();
        begins.sort_unstable();
        begins.dedup();
        let most_from = |begin_us: &u64| {
            let mut count = 0;
            let exceeds = |admission: &Admission| {
                count += admission.count;
                (count * TOKEN).saturating_sub(rate * (admission.until_us - begin_us))
            };
            by_end.iter().filter(|admission| admission.from_us >= *begin_us).map(exceeds).max().unwrap_or(0)
        };
        begins.iter().map(most_from).max().unwrap_or(0).div_ceil(TOKEN)
    }
}

impl Admission {
    /// The message of a child.
    pub(crate) fn message(&self) -> String {
        let Admission { from_us, until_us, count, is_leased } = self;
        format!("admitted {from_us} {until_us} {count} {is_leased}")
    }

    pub(crate) fn parse(message: &str) -> Option<Admission> {
        let parts: Vec<&str> = message.strip_prefix("admitted ")?.split(' ').collect();
        let [from, until, count, is_leased] = parts[..] else { return None };
        let number = |text: &str| text.parse().ok();
        let (from_us, until_us, count) = (number(from)?, number(until)?, number(count)?);
        Some(Admission { from_us, until_us, count, is_leased: is_leased.parse().ok()? })
    }
}

/// Logs an admission for each of these times, known exactly.
fn admitted_at(times_ms: &[u64]) -> Admissions {
    let admission = |at: &u64| Admission { from_us: at * 1_000, until_us: at * 1_000, count: 1, is_leased: false };
    Admissions(times_ms.iter().map(admission).collect())
}

#[test]
fn least_burst_is_the_largest_excess_over_the_rate() {
    // At 100 a second a token refills in 10 ms.
    assert_eq!(admitted_at(&[0, 10, 20, 30]).least_burst(100), 1);
    assert_eq!(admitted_at(&[0, 0, 0]).least_burst(100), 3);
    assert_eq!(admitted_at(&[0, 9, 19, 29]).least_burst(100), 2);
    assert_eq!(admitted_at(&[0, 100, 100, 105, 110, 500]).least_burst(100), 3);
    // Three in 15 ms: 3 less one token.
    assert_eq!(admitted_at(&[0, 5, 15]).least_burst(100), 2);
}

#[test]
fn least_burst_allows_any_time_within_the_span_of_an_admission() {
    let admission = |from_us, until_us, count| Admission { from_us, until_us, count, is_leased: true };
    assert_eq!(Admissions(vec![admission(0, 20_000, 3)]).least_burst(100), 1);
    assert_eq!(Admissions(vec![admission(0, 19_999, 3)]).least_burst(100), 2);
    // One with a long span may have been before or after those within a shorter one.
    let nested = Admissions(vec![admission(0, 50_000, 1), admission(10_000, 10_000, 2), admission(20_000, 20_000, 1)]);
    assert_eq!(nested.least_burst(100), 2);
}

#[test]
fn admission_survives_its_message() {
    let mut log = Admissions::default();
    log.add(1_000_000, 1_000_010, true);
    log.add(1_000_011, 1_000_020, true);
    log.add(1_000_300, 1_000_310, true);
    assert_eq!(log.0[0], Admission { from_us: 1_000_000, until_us: 1_000_020, count: 2, is_leased: true });
    assert_eq!(Admission::parse(&log.0[0].message()), Some(log.0[0]));
    assert_eq!((log.count(), log.leased(), log.between(0, 1_000_021)), (3, 3, 2));
}
