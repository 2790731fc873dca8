//! The rates that this region enforces: what it may be refilled with now, and what it was refilled with since a key was
//! written last.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::fault_points::RegionFaultPoints;
use super::messages::ScopedKey;
use crate::call::{RefillSchedule, RefillSpan};

/// The rates of keys in thousandths of their limits' rates.
pub(super) type KeyRates = HashMap<ScopedKey, u32>;

/// The number of epochs whose exceptions are kept. Of older ones only the time is kept at which a key was last lent.
const EPOCHS_KEPT: usize = 3;

/// The most keys whose last loan is remembered.
const MAX_LENT_KEYS: usize = 1 << 18;

/// The most spans of a schedule.
const MAX_SPANS: usize = 6;

/// A boundary between two spans is known to this part of the time that has passed since, because clocks drift.
const DRIFT: i64 = 2_048;

/// An end that is not known.
const FOREVER_US: i64 = 1 << 52;

/// The rates in an epoch, or in the epochs since a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EpochRates {
    /// When the epoch has begun at the latest and ends at the earliest, in microseconds since the base.
    pub(super) from_us: i64,
    pub(super) until_us: i64,
    /// The rate of keys that are not listed.
    pub(super) base: u32,
    /// The rate of keys for which nothing is known.
    pub(super) reserve: u32,
    pub(super) listed: Arc<KeyRates>,
}

/// The rates of this region over time, oldest first.
#[derive(Debug)]
pub(super) struct Rates {
    /// The time to which all others refer.
    base: Instant,
    epochs: VecDeque<EpochRates>,
    /// Until when keys were lent, in epochs whose exceptions are not kept any more.
    lent_until: HashMap<ScopedKey, i64>,
    /// Keys that are not in `lent_until` may have been lent before this time.
    all_lent_until_us: i64,
    faults: RegionFaultPoints,
}

impl EpochRates {
    fn of(&self, key: &[u8]) -> u32 {
        self.listed.get(key).copied().unwrap_or(self.base)
    }
}

impl Rates {
    /// Creates rates of which nothing is known.
    pub(super) fn new(base: Instant, faults: RegionFaultPoints) -> Rates {
        let all_lent_until_us = -FOREVER_US;
        Rates { base, epochs: VecDeque::new(), lent_until: HashMap::new(), all_lent_until_us, faults }
    }

    /// Sets the rates of an epoch, and of the one after it until they are known: its reserve. Replaces what was set for
    /// the same time and for later times.
    pub(super) fn set(&mut self, epoch: EpochRates, next_from_us: i64) {
        while self.epochs.back().is_some_and(|last| last.from_us >= epoch.from_us) {
            self.epochs.pop_back();
        }
        if let Some(last) = self.epochs.back_mut() {
            last.until_us = last.until_us.min(epoch.from_us);
        }
        let reserve = epoch.reserve;
        self.epochs.push_back(epoch);
        let (from_us, until_us, listed) = (next_from_us, FOREVER_US, Arc::default());
        self.epochs.push_back(EpochRates { from_us, until_us, base: reserve, reserve, listed });
        self.compact();
    }

    /// Ends all rates: from now on nothing is refilled.
    pub(super) fn end(&mut self, at: Instant) {
        let now_us = self.since_base_us(at);
        self.epochs.retain(|epoch| epoch.from_us < now_us);
        if let Some(last) = self.epochs.back_mut() {
            last.until_us = last.until_us.min(now_us);
        }
    }

    /// Drops the exceptions of old epochs, and joins old epochs with the same rates.
    fn compact(&mut self) {
        // The last one is only a guess.
        let old = self.epochs.len().saturating_sub(EPOCHS_KEPT + 1);
        for index in 0..old {
            let EpochRates { until_us, base, listed, .. } = &mut self.epochs[index];
            for (key, rate) in std::mem::take(listed).iter() {
                if rate < base {
                    self.lent_until.insert(key.clone(), *until_us);
                }
            }
        }
        if self.lent_until.len() > MAX_LENT_KEYS {
            let latest = self.lent_until.values().max().copied();
            self.all_lent_until_us = self.all_lent_until_us.max(latest.unwrap_or(-FOREVER_US));
            self.lent_until.clear();
        }
        let mut index = 1;
        while index < self.epochs.len().saturating_sub(EPOCHS_KEPT + 1) {
            let (before, after) = (&self.epochs[index - 1], &self.epochs[index]);
            if (before.base, before.reserve) == (after.base, after.reserve) {
                let until_us = after.until_us;
                self.epochs[index - 1].until_us = until_us;
                self.epochs.remove(index);
            } else {
                index += 1;
            }
        }
        while self.epochs.len() > 64 {
            self.epochs.pop_front();
        }
    }

    /// Returns the rate of a key at a time; 0 if it is not known.
    pub(super) fn rate_at(&self, key: &[u8], now: Instant) -> u32 {
        let now_us = self.since_base_us(now);
        // Between two epochs, the last one that has begun is close enough for what this is used for: retry times.
        let current = self.epochs.iter().rev().find(|epoch| epoch.from_us <= now_us).or(self.epochs.front());
        current.filter(|epoch| now_us < epoch.until_us.max(epoch.from_us + 1)).map_or(0, |epoch| epoch.of(key))
    }

    /// Returns the schedule of a key, which ends at a time.
    pub(super) fn schedule(&self, key: &[u8], now: Instant, valid_until: Instant) -> RefillSchedule {
        let mut spans: SmallVec<[RefillSpan; 4]> = SmallVec::new();
        let mut push = |span: RefillSpan| match spans.last_mut() {
            _ if span.until_us <= span.from_us || span.rate == 0 => {}
            Some(last) if last.until_us == span.from_us && last.rate == span.rate => last.until_us = span.until_us,
            _ => spans.push(span),
        };
        let (mut before, faults): (Option<(i64, u32)>, _) = (None, self.faults);
        let old = self.epochs.len().saturating_sub(EPOCHS_KEPT + 1);
        let lent_until_us =
            self.lent_until.get(key).map_or(self.all_lent_until_us, |us| self.all_lent_until_us.max(*us));
        for (index, epoch) in self.epochs.iter().enumerate() {
            let rate = epoch.of(key);
            // Between two epochs that follow each other, the smaller rate is that of both.
            if let Some((until_us, earlier)) = before {
                let gap_us = epoch.from_us - until_us;
                if (0..=MAX_GAP_US).contains(&gap_us) {
                    push(RefillSpan {
                        from_us: until_us,
                        until_us: epoch.from_us,
                        rate: faults.rate_between(earlier, rate),
                    });
                }
            }
            let lent_us = lent_until_us.clamp(epoch.from_us, epoch.until_us);
            if index < old && lent_us > epoch.from_us {
                push(RefillSpan { from_us: epoch.from_us, until_us: lent_us, rate: rate.min(epoch.reserve) });
                push(RefillSpan { from_us: lent_us, until_us: epoch.until_us, rate });
            } else {
                push(RefillSpan { from_us: epoch.from_us, until_us: epoch.until_us, rate });
            }
            before = Some((epoch.until_us, rate));
        }
        while spans.len() > MAX_SPANS {
            // Time between them would have been filled if it had a rate.
            let (first, second) = (spans.remove(0), spans[0]);
            let from_us = if first.until_us == second.from_us { first.from_us } else { second.from_us };
            spans[0] = RefillSpan { from_us, rate: first.rate.min(second.rate), ..second };
        }
        let (now_us, valid_until_us) = (self.since_base_us(now), self.since_base_us(valid_until));
        for span in &mut spans {
            span.until_us = span.until_us.min(valid_until_us);
            span.from_us += (now_us - span.from_us).abs() / DRIFT;
            span.until_us -= (now_us - span.until_us).abs() / DRIFT;
        }
        spans.retain(|span| span.from_us < span.until_us);
        if self.faults.has_one_rate() {
            let rate = self.rate_at(key, now);
            spans = smallvec::smallvec![RefillSpan { from_us: -FOREVER_US, until_us: valid_until_us, rate }];
        }
        let least = self.epochs.back().map_or(1, |epoch| epoch.reserve.max(1));
        RefillSchedule { base: self.base, spans, least }
    }

    fn since_base_us(&self, at: Instant) -> i64 {
        i64::try_from(at.saturating_duration_since(self.base).as_micros()).unwrap_or(FOREVER_US)
    }
}

/// The longest time for which it may be uncertain which of two epochs it is. Two epochs with a longer time between them
/// do not follow each other.
const MAX_GAP_US: i64 = 5_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const S: i64 = 1_000_000;

    fn key(text: &str) -> ScopedKey {
        ScopedKey::new("s", text.as_bytes())
    }

    fn epoch(from_us: i64, until_us: i64, base: u32, listed: &[(&str, u32)]) -> EpochRates {
        let listed = listed.iter().map(|(text, rate)| (key(text), *rate)).collect();
        EpochRates { from_us, until_us, base, reserve: 10, listed: Arc::new(listed) }
    }

    fn rates() -> (Rates, Instant) {
        let base = Instant::now();
        (Rates::new(base, RegionFaultPoints::default()), base)
    }

    /// Returns the spans of a key as (from, until, rate), with times in seconds, as seen at a time.
    fn spans(rates: &Rates, text: &str, at: i64) -> Vec<(i64, i64, u32)> {
        let now = rates.base + Duration::from_secs(at as u64);
        let spans = rates.schedule(key(text).as_ref(), now, rates.base + Duration::from_secs(at as u64 + 15)).spans;
        spans
            .iter()
            .map(|span| ((span.from_us + S / 2).div_euclid(S), (span.until_us + S / 2).div_euclid(S), span.rate))
            .collect()
    }

    #[test]
    fn epochs_with_the_same_rate_are_one_span_and_the_next_one_has_the_reserve() {
        let (mut rates, _) = rates();
        rates.set(epoch(0, 10 * S, 500, &[("a", 100)]), 11 * S);
        assert_eq!(spans(&rates, "x", 5), [(0, 10, 500), (10, 20, 10)]);
        rates.set(epoch(11 * S, 20 * S, 500, &[]), 21 * S);
        assert_eq!(spans(&rates, "x", 15), [(0, 20, 500), (20, 30, 10)]);
        assert_eq!(spans(&rates, "a", 15), [(0, 11, 100), (11, 20, 500), (20, 30, 10)]);
    }

    #[test]
    fn smaller_rate_holds_while_the_epoch_is_uncertain() {
        let (mut rates, _) = rates();
        rates.set(epoch(0, 10 * S, 500, &[("a", 800)]), 12 * S);
        rates.set(epoch(12 * S, 20 * S, 500, &[("a", 200)]), 22 * S);
        rates.set(epoch(22 * S, 30 * S, 500, &[("a", 900)]), 32 * S);
        assert_eq!(spans(&rates, "a", 25), [(0, 10, 800), (10, 22, 200), (22, 30, 900), (30, 40, 10)]);
    }

    #[test]
    fn what_is_learnt_later_replaces_the_guess() {
        let (mut rates, _) = rates();
        rates.set(epoch(0, 10 * S, 10, &[]), 11 * S);
        rates.set(epoch(0, 10 * S, 500, &[("a", 700)]), 11 * S);
        assert_eq!(spans(&rates, "a", 5), [(0, 10, 700), (10, 20, 10)]);
    }

    #[test]
    fn keys_that_were_lent_long_ago_have_the_reserve_until_then() {
        let (mut rates, _) = rates();
        for number in 0..20 {
            let listed: &[(&str, u32)] = if number == 4 { &[("a", 100), ("b", 900)] } else { &[] };
            rates.set(epoch(number * 10 * S, (number + 1) * 10 * S, 500, listed), (number + 1) * 10 * S);
        }
        assert_eq!(rates.epochs.len(), 5);
        assert_eq!(spans(&rates, "x", 195), [(0, 200, 500), (200, 210, 10)]);
        assert_eq!(spans(&rates, "a", 195), [(0, 50, 10), (50, 200, 500), (200, 210, 10)]);
        // What was borrowed is forgotten.
        assert_eq!(spans(&rates, "b", 195), [(0, 200, 500), (200, 210, 10)]);
    }

    #[test]
    fn missing_epochs_have_the_reserve_and_nothing_is_refilled_after_the_end() {
        let (mut rates, base) = rates();
        rates.set(epoch(0, 10 * S, 500, &[]), 11 * S);
        rates.set(epoch(50 * S, 60 * S, 500, &[]), 61 * S);
        assert_eq!(spans(&rates, "x", 55), [(0, 10, 500), (10, 50, 10), (50, 60, 500), (60, 70, 10)]);
        rates.end(base + Duration::from_secs(55));
        assert_eq!(spans(&rates, "x", 55), [(0, 10, 500), (10, 50, 10), (50, 55, 500)]);
        assert_eq!(rates.rate_at(b"x", base + Duration::from_secs(56)), 0);
        assert_eq!(rates.rate_at(b"x", base + Duration::from_secs(54)), 500);
    }

    #[test]
    fn boundaries_shrink_with_age() {
        let (mut rates, base) = rates();
        rates.set(epoch(0, 10 * S, 500, &[]), 10 * S);
        let schedule = rates.schedule(b"x", base + Duration::from_secs(2_048), base + Duration::from_secs(3_000));
        assert_eq!(schedule.spans[0].from_us, S);
        assert_eq!(schedule.spans[0].until_us, 10 * S - (2_048 - 10) * S / 2_048);
    }
}
