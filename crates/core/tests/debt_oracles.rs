//! The debt after any order of charges and settlements equals that of plain oracles.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::VecDeque;

use common::cases;
use common::oracles::{TokenBucket, whole};
use common::quotas::any_small_quota_with_debt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{
    Algorithm, AlgorithmKind, Bucket, ChargeVerdict, FixedWindow, Quota, SlidingCounter, SlidingLog, Tick,
};

/// The debt of each algorithm, unit by unit.
trait Oracle {
    fn check(&mut self, now: u64, cost: u64) -> bool;
    /// Charges up to the largest debt, and returns the rest.
    fn owe(&mut self, now: u64, cost: u64) -> u64;
}

fn agrees<A: Algorithm>(algorithm: &A, oracle: &mut impl Oracle, steps: &[(u64, bool, u64)]) -> TestCaseResult {
    let (mut state, mut now) = (A::State::default(), 1_787_500_000_000_000);
    for (step, owes, cost) in steps {
        now += step;
        if *owes {
            prop_assert_eq!(algorithm.owe(&mut state, now, *cost), oracle.owe(now, *cost));
        } else {
            prop_assert_eq!(algorithm.check(&mut state, now, *cost).is_allowed(), oracle.check(now, *cost));
        }
    }
    Ok(())
}

fn any_steps() -> impl Strategy<Value = Vec<(u64, bool, u64)>> {
    let step = prop_oneof![2 => Just(0_u64), 2 => 1_u64..400, 2 => 400_u64..1_500, 1 => 1_500_u64..9_000];
    let act = prop_oneof![(Just(false), 1_u64..=7), (Just(true), 1_u64..=20)];
    vec((step, act).prop_map(|(step, (owes, cost))| (step, owes, cost)), 1..60)
}

impl Oracle for (TokenBucket, u64) {
    fn check(&mut self, now: u64, cost: u64) -> bool {
        matches!(self.0.request(now, cost, 0).verdict, ChargeVerdict::Allowed { .. })
    }

    fn owe(&mut self, now: u64, cost: u64) -> u64 {
        self.0.advance(now);
        let room = (&self.0.level + whole(self.1)).floor().max(whole(0));
        let fits = room.clone().min(whole(cost));
        let lost = whole(cost) - &fits;
        // A charge that does not fit takes everything that is left.
        self.0.level = if lost > whole(0) { -whole(self.1) } else { &self.0.level - fits };
        common::oracles::to_u64(&lost)
    }
}

/// The total of a window. The excess over the limit goes to the next one.
struct Windows {
    quota: Quota,
    slides: bool,
    number: u64,
    previous: u64,
    total: u64,
}

impl Windows {
    fn of(quota: Quota) -> Windows {
        let slides = quota.kind() == AlgorithmKind::SlidingWindowCounter;
        Windows { quota, slides, number: 0, previous: 0, total: 0 }
    }

    fn window(&self) -> u64 {
        self.quota.period_ns() / 1_000
    }

    /// Returns the weighed usage at `now`, times the length of a window.
    fn counts(&mut self, now: u64) -> u64 {
        let number = now / self.window();
        if self.number == 0 {
            self.number = number;
        }
        while self.number < number {
            self.previous = self.total.min(self.quota.amount());
            self.total -= self.previous;
            self.number += 1;
        }
        let fading = if self.slides { self.previous * (self.window() - now % self.window()) } else { 0 };
        self.total * self.window() + fading
    }

    fn fits(&mut self, now: u64, cost: u64, most: u64) -> bool {
        self.counts(now) + cost * self.window() <= most * self.window()
    }
}

impl Oracle for Windows {
    fn check(&mut self, now: u64, cost: u64) -> bool {
        let fits = self.fits(now, cost, self.quota.amount());
        self.total += if fits { cost } else { 0 };
        fits
    }

    fn owe(&mut self, now: u64, cost: u64) -> u64 {
        let mut left = cost;
        while left > 0 && self.fits(now, 1, self.quota.amount() + self.quota.max_debt()) {
            self.total += 1;
            left -= 1;
        }
        left
    }
}

/// Every unit with its time; an expired unit makes space for one that is owed.
struct Units {
    quota: Quota,
    units: VecDeque<u64>,
    owed: u64,
}

impl Units {
    fn advance(&mut self, now: u64) {
        while let Some(left_at) = self.units.front().map(|at| at + self.quota.period_ns() / 1_000) {
            if left_at > now {
                break;
            }
            self.units.pop_front();
            if self.owed > 0 {
                self.units.push_back(left_at);
                self.owed -= 1;
            }
        }
    }
}

impl Oracle for Units {
    fn check(&mut self, now: u64, cost: u64) -> bool {
        self.advance(now);
        let fits = self.units.len() as u64 + self.owed + cost <= self.quota.amount();
        self.units.extend((0..if fits { cost } else { 0 }).map(|_| now));
        fits
    }

    fn owe(&mut self, now: u64, cost: u64) -> u64 {
        self.advance(now);
        for unit in 0..cost {
            if (self.units.len() as u64) < self.quota.amount() {
                self.units.push_back(now);
            } else if self.owed < self.quota.max_debt() {
                self.owed += 1;
            } else {
                return cost - unit;
            }
        }
        0
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn debt_equals_that_of_plain_oracles(quota in any_small_quota_with_debt(), steps in any_steps()) {
        let tick = Tick::Microsecond;
        match quota.kind() {
            AlgorithmKind::TokenBucket => {
                let mut oracle = (TokenBucket::full(&quota, tick, 1_787_500_000_000_000), quota.max_debt());
                agrees(&Bucket::new(&quota, tick).unwrap(), &mut oracle, &steps)?;
            }
            AlgorithmKind::FixedWindow => {
                agrees(&FixedWindow::new(&quota, tick).unwrap(), &mut Windows::of(quota), &steps)?;
            }
            AlgorithmKind::SlidingWindowCounter => {
                agrees(&SlidingCounter::new(&quota, tick).unwrap(), &mut Windows::of(quota), &steps)?;
            }
            _ => {
                let mut oracle = Units { quota, units: VecDeque::new(), owed: 0 };
                agrees(&SlidingLog::new(&quota, tick).unwrap(), &mut oracle, &steps)?;
            }
        }
    }
}
