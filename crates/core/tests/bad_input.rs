//! Values out of range cannot be built, and every error states what was expected.

// Helpers of tests panic as tests do.
#![allow(clippy::unwrap_used)]

mod common;

use std::error::Error;
use std::time::Duration;

use common::cases;
use common::quotas;
use proptest::prelude::*;
use tollgate_core::{MAX_AMOUNT, MAX_SPAN_NS, Queue, Quota, QuotaError, Rate, RateError};

fn any_duration() -> impl Strategy<Value = Duration> + Clone {
    prop_oneof![
        (any::<u64>(), 0_u32..1_000_000_000).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
        any::<u64>().prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_millis),
        (0_u64..5_000).prop_map(Duration::from_millis),
        Just(Duration::ZERO),
        Just(Duration::MAX),
    ]
}

fn any_number() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        0_u64..5,
        any::<u64>(),
        quotas::any_magnitude(u64::MAX),
        (0_u64..3).prop_map(|more| MAX_AMOUNT - 1 + more),
        Just(u64::MAX)
    ]
}

/// Returns whether a message states what to write instead.
fn states_what_was_expected(error: &dyn Error) -> bool {
    let text = error.to_string();
    let is_helpful = ["must", "expected", "remove it", "only a"].iter().any(|word| text.contains(word));
    is_helpful && text.len() < 400
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn rates_are_built_exactly_if_in_range(count in any_number(), period in any_duration()) {
        let ns = period.as_nanos();
        let in_range = (1..=u128::from(MAX_SPAN_NS)).contains(&ns) && ns.is_multiple_of(1_000_000);
        // At most 10^9 a second is at most one a nanosecond.
        let fits = (1..=MAX_AMOUNT).contains(&count) && in_range && u128::from(count) <= ns;
        match Rate::new(count, period) {
            Ok(rate) => {
                prop_assert!(fits);
                prop_assert_eq!((rate.count(), rate.period(), rate.burst()), (count, period, None));
            }
            Err(error) => {
                prop_assert!(!fits);
                prop_assert!(states_what_was_expected(&error), "{}", error);
                let expected = if count == 0 {
                    RateError::ZeroCount
                } else if count > MAX_AMOUNT {
                    RateError::CountTooLarge
                } else if !in_range {
                    RateError::Period
                } else {
                    RateError::TooFast
                };
                prop_assert_eq!(error, expected);
            }
        }
    }

    #[test]
    fn bursts_are_accepted_exactly_if_they_refill_in_time(rate in quotas::any_rate(), burst in any_number()) {
        // The refill time, rounded down, plus one tick for each token, which rounding can add.
        let refill = u128::from(burst) * u128::from(rate.period_ns()) / u128::from(rate.count()) + u128::from(burst);
        match rate.with_burst(burst) {
            Ok(with) => {
                prop_assert!((1..=MAX_AMOUNT).contains(&burst) && refill <= u128::from(MAX_SPAN_NS));
                prop_assert_eq!((with.count(), with.period(), with.burst()), (rate.count(), rate.period(), Some(burst)));
                prop_assert_eq!(with.burst_or_default(), burst);
            }
            Err(error) => {
                prop_assert!(states_what_was_expected(&error), "{}", error);
                let expected = match burst {
                    0 => RateError::ZeroBurst,
                    _ if burst > MAX_AMOUNT => RateError::BurstTooLarge,
                    _ => RateError::BurstTooSlow,
                };
                prop_assert_eq!(error, expected);
            }
        }
    }

    #[test]
    fn rates_print_and_parse_back(rate in prop_oneof![quotas::any_rate(), quotas::any_rate_with_burst()]) {
        prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate), "{}", rate);
    }

    #[test]
    fn parser_never_panics(text in any::<String>()) {
        if let Err(error) = text.parse::<Rate>() {
            prop_assert!(states_what_was_expected(&error), "{}", error);
            prop_assert!(error.column() <= text.chars().count().max(128));
        }
    }

    #[test]
    fn texts_close_to_a_rate_are_rejected_or_parse_back(text in "[ _\\-+]?[0-9_.,eE]{0,22}[ ]?(/|per|PER|)[ ]?[0-9_]{0,22}[ ]?(s|min|m|ms|h|day|month|year|sec|µs|)[ ]?(burst|Burst|)[ ]?-?[0-9]{0,22}[ \t]?") {
        match text.parse::<Rate>() {
            Ok(rate) => prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate)),
            Err(error) => {
                prop_assert!(states_what_was_expected(&error), "{}", error);
                prop_assert!(error.column() <= text.chars().count());
                // Three lines: what was expected, the text, and a caret under the column.
                let shown = error.to_string();
                let lines: Vec<_> = shown.lines().collect();
                prop_assert_eq!(lines.len(), 3);
                prop_assert_eq!(lines[2].chars().count(), error.column() + 3);
            }
        }
    }

    #[test]
    fn quota_constructors_never_panic(
        rate in prop_oneof![quotas::any_rate(), quotas::any_rate_with_burst()],
        size in any_number(),
        max_wait in proptest::option::of(any_duration()),
        ahead in any_duration(),
    ) {
        let queue = Queue { size, max_wait };
        let built = [
            Quota::token_bucket(rate),
            Quota::leaky_bucket(rate),
            Quota::leaky_queue(rate, queue),
            Quota::fixed_window(rate),
            Quota::sliding_window_counter(rate),
            Quota::sliding_window_log(rate),
            Quota::concurrency(size, max_wait),
        ];
        for quota in built {
            match quota.and_then(|quota| quota.with_reservations(ahead)) {
                Ok(quota) => prop_assert_eq!(u128::from(quota.ahead_ns()), ahead.as_nanos()),
                Err(error) => prop_assert!(states_what_was_expected(&error), "{}", error),
            }
        }
        if rate.burst().is_some() {
            prop_assert_eq!(Quota::fixed_window(rate), Err(QuotaError::BurstOnWindow));
            prop_assert_eq!(Quota::sliding_window_counter(rate), Err(QuotaError::BurstOnWindow));
            prop_assert_eq!(Quota::leaky_queue(rate, queue), Err(QuotaError::BurstOnQueue));
        } else if rate.count() > Quota::MAX_LOG {
            prop_assert_eq!(Quota::sliding_window_log(rate), Err(QuotaError::LogTooLong));
        }
    }
}

#[test]
fn quota_constructors_return_the_error_of_each_mistake() {
    let rate: Rate = "10/s".parse().unwrap();
    let slow: Rate = "1/year".parse().unwrap();
    let queue = |size, max_wait| Queue { size, max_wait };
    let second = Duration::from_secs(1);
    for (built, expected) in [
        (Quota::leaky_queue(rate, queue(0, None)), QuotaError::EmptyQueue),
        (Quota::leaky_queue(rate, queue(MAX_AMOUNT, None)), QuotaError::QueueTooLong),
        (Quota::leaky_queue(rate, queue(u64::MAX, Some(Duration::MAX))), QuotaError::QueueTooLong),
        (Quota::leaky_queue(slow, queue(40, None)), QuotaError::TooFarAhead),
        (Quota::concurrency(0, None), QuotaError::Permits),
        (Quota::concurrency(MAX_AMOUNT + 1, None), QuotaError::Permits),
        (Quota::concurrency(1, Some(Duration::ZERO)), QuotaError::Lease),
        (Quota::concurrency(1, Some(Duration::MAX)), QuotaError::Lease),
        (Quota::token_bucket(rate).unwrap().with_reservations(Duration::MAX), QuotaError::TooFarAhead),
        (Quota::fixed_window(rate).unwrap().with_reservations(second), QuotaError::AheadOnWindow),
        (Quota::concurrency(1, None).unwrap().with_reservations(second), QuotaError::AheadOnWindow),
        // Its default burst is its count, which takes longer than 36 years in whole ticks.
        (
            Quota::token_bucket(Rate::new(MAX_AMOUNT, Duration::from_millis(MAX_SPAN_NS / 1_000_000)).unwrap()),
            QuotaError::Rate(RateError::BurstTooSlow),
        ),
    ] {
        assert_eq!(built, Err(expected));
        assert!(states_what_was_expected(&expected), "{expected}");
    }
    assert!(QuotaError::Rate(RateError::BurstTooSlow).source().is_some());
}

#[test]
fn values_one_beyond_each_bound_are_rejected() {
    let second = Duration::from_secs(1);
    let longest = Duration::from_millis(MAX_SPAN_NS / 1_000_000);
    for (count, period, expected) in [
        (1, second, Ok(())),
        (0, second, Err(RateError::ZeroCount)),
        (1_000_000_000, second, Ok(())),
        (1_000_000_001, second, Err(RateError::TooFast)),
        (1_000_001, Duration::from_millis(1), Err(RateError::TooFast)),
        (MAX_AMOUNT, longest, Ok(())),
        (MAX_AMOUNT + 1, longest, Err(RateError::CountTooLarge)),
        (1, longest + Duration::from_millis(1), Err(RateError::Period)),
        (1, Duration::from_nanos(999_999), Err(RateError::Period)),
        (1, Duration::from_nanos(1_000_001), Err(RateError::Period)),
    ] {
        assert_eq!(Rate::new(count, period).map(|_| ()), expected, "{count} in {period:?}");
    }
}

#[test]
fn numbers_in_other_notations_are_not_rates() {
    for text in [
        "NaN/s",
        "inf/s",
        "-1/s",
        "+1/s",
        "1e3/s",
        "0x10/s",
        "٣/s",
        "1/s burst NaN",
        "1/-1s",
        "1/NaN s",
        "½/s",
        "1/0ms",
        "0/s",
        "1/s burst 0",
        "18446744073709551616/s",
        "1/18446744073709551616s",
        "1/s burst 18446744073709551616",
        "",
        " ",
        "/",
        "per",
        "burst 5",
        "1//s",
        "1/s/s",
        "1/s burst 5 burst 6",
    ] {
        let error = text.parse::<Rate>().expect_err(text);
        assert!(states_what_was_expected(&error), "{text}: {error}");
    }
}

#[test]
fn overlong_texts_are_rejected_with_a_short_error() {
    for text in ["9".repeat(1 << 20), "1/".to_owned() + &"s".repeat(1 << 20), " ".repeat(1 << 20), "∞".repeat(1 << 18)]
    {
        let error = text.parse::<Rate>().unwrap_err();
        assert!(error.to_string().len() < 200);
        assert!(states_what_was_expected(&error));
    }
}
