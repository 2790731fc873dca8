//! The observable statements of `docs/state.md` about the representation.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::cases;
use common::quotas::{self, any_magnitude};
use common::traces::{Scale, any_start, any_trace};
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::{Algorithm, Bucket, BucketState, Leases, LogState, Quota, Rate, SlidingLog, Tick};

/// The bits of a packed bucket for its fraction.
const PART_BITS: u32 = 20;

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn fraction_of_a_tick_fits_in_20_bits(
        quota in prop_oneof![quotas::any_bucket(), quotas::any_reserving_bucket(), quotas::any_queue()],
        (tick, start) in quotas::any_tick().prop_flat_map(|tick| (Just(tick), any_start(tick))),
        trace in any_trace(24),
    ) {
        let bucket = Bucket::new(&quota, tick).unwrap();
        let mut state = BucketState::default();
        let scale = Scale::new(&quota, tick, bucket.peek(&state, start, 0).limit);
        let (mut now, mut last) = (start, None);
        for (step, cost) in trace {
            now += scale.step(step, last);
            let decision = bucket.reserve(&mut state, now, scale.cost(cost), u64::MAX);
            prop_assert!(state.part < 1 << PART_BITS);
            // The bucket is full after `reset_after`, which is visible without the quota.
            prop_assert_eq!(Bucket::full_at(state).max(now), now + decision.reset_after);
            last = Some(decision);
        }
    }

    #[test]
    fn full_bucket_equals_an_unused_one(
        quota in prop_oneof![quotas::any_bucket(), quotas::any_reserving_bucket(), quotas::any_queue()],
        (tick, start) in quotas::any_tick().prop_flat_map(|tick| (Just(tick), any_start(tick))),
        (tat, part) in (any::<u32>(), 0_u32..1 << PART_BITS),
        cost in 1_u64..5,
    ) {
        let bucket = Bucket::new(&quota, tick).unwrap();
        let mut past = BucketState { tat: start - 1 - u64::from(tat), part };
        let mut never = BucketState::default();
        prop_assert_eq!(bucket.peek(&past, start, 0), bucket.peek(&never, start, 0));
        prop_assert_eq!(bucket.check(&mut past, start, cost), bucket.check(&mut never, start, cost));
        prop_assert!(!bucket.peek(&never, start, cost).is_allowed() || past == never);
    }

    #[test]
    fn log_contains_every_charge_in_its_window(
        limit in 1_u64..=Quota::MAX_LOG,
        start in any_start(Tick::Nanosecond),
        charges in vec((prop_oneof![0_u64..3, any_magnitude(1 << 54)], prop_oneof![Just(1_u64), any_magnitude(1 << 20)]), 1..80),
    ) {
        // The longest window: nothing expires during the test.
        let rate = Rate::new(limit, Duration::from_secs(36 * 365 * 86_400)).unwrap();
        let log = SlidingLog::new(&Quota::sliding_window_log(rate).unwrap(), Tick::Nanosecond).unwrap();
        let mut state = LogState::default();
        let mut expected = Vec::new();
        let mut now = start;
        for (step, cost) in charges {
            now += step;
            if log.check(&mut state, now, cost).is_allowed() {
                expected.push((now, cost));
            }
        }
        prop_assume!(now - start < 36 * 365 * 86_400 * 1_000_000_000);
        prop_assert_eq!(state.entries().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn log_drops_entries_that_left_its_window(
        limit in 1_u64..40,
        start in any_start(Tick::Nanosecond),
        charges in vec((prop_oneof![0_u64..3, 0_u64..2_000_000], 1_u64..4), 1..120),
    ) {
        let window = 1_000_000;
        let rate = Rate::new(limit, Duration::from_nanos(window)).unwrap();
        let log = SlidingLog::new(&Quota::sliding_window_log(rate).unwrap(), Tick::Nanosecond).unwrap();
        let mut state = LogState::default();
        let mut expected = Vec::new();
        let mut now = start;
        for (step, cost) in charges {
            now += step;
            expected.retain(|(at, _)| now - at < window);
            if log.check(&mut state, now, cost).is_allowed() {
                expected.push((now, cost));
            }
            prop_assert_eq!(&state.entries().collect::<Vec<_>>(), &expected);
            prop_assert!(expected.len() as u64 <= limit);
        }
    }
}

/// Returns the heap bytes of an entry after `windows` full windows of evenly spaced charges of 1.
fn heap_bytes_an_entry(rate: &str, windows: u64) -> (usize, usize) {
    let rate: Rate = rate.parse().unwrap();
    let log = SlidingLog::new(&Quota::sliding_window_log(rate).unwrap(), Tick::Nanosecond).unwrap();
    let mut state = LogState::default();
    let gap = rate.period_ns() / rate.count();
    for i in 0..rate.count() * windows {
        assert!(log.check(&mut state, (1 << 60) + i * gap, 1).is_allowed());
    }
    (state.heap_bytes(), state.entries().count())
}

#[test]
fn log_entries_at_five_a_minute_take_few_bytes() {
    for (rate, entries) in [("300/h", 300), ("7200/day", 7_200), ("50400/week", 50_400)] {
        for windows in [1, 3] {
            let (bytes, found) = heap_bytes_an_entry(rate, windows);
            assert_eq!(found, entries);
            assert!(bytes <= 6 * entries, "{bytes} bytes for {entries} entries at {rate} after {windows} windows");
        }
    }
}

#[test]
fn states_have_the_documented_sizes() {
    assert_eq!(size_of::<BucketState>(), 16);
    assert_eq!(size_of::<tollgate_core::WindowState>(), 4 * 8);
    assert_eq!(size_of::<tollgate_core::CounterState>(), 5 * 8);
    assert!(size_of::<Leases>() <= 4 * 8);
}
