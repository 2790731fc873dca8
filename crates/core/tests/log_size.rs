//! The largest size of a log is a bound, and close to what traffic can reach.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tollgate_core::{Algorithm, LogState, Quota, Rate, SlidingLog, Tick};

/// Fills a log repeatedly, and returns the largest number of bytes that it took.
fn max_bytes_taken(log: &SlidingLog, gap: impl Fn(u64) -> u64, cost: u64, charges: u64) -> u64 {
    let (mut state, mut now, mut most) = (LogState::default(), 1 << 60, 0);
    for at in 0..charges {
        now += gap(at);
        log.check(&mut state, now, cost);
        most = most.max(state.heap_bytes() as u64);
    }
    most
}

#[test]
fn logs_stay_within_their_size_bound_for_any_gaps() {
    for (limit, window_ms) in [(1, 1), (100, 1), (50, 60_000), (3_000, 1_000), (3_000, 86_400_000), (2_000, 1 << 40)] {
        let quota = Quota::sliding_window_log(Rate::new(limit, Duration::from_millis(window_ms)).unwrap()).unwrap();
        let log = SlidingLog::new(&quota, Tick::Nanosecond).unwrap();
        let mean = window_ms * 1_000_000 / limit;
        let bound = log.max_heap_bytes();
        // The sizes around the mean gap, mixed so that the window contains as many of the larger as it can.
        let sizes: Vec<u64> = [0].into_iter().chain((2..=9).map(|bytes| 1_u64 << (7 * bytes - 8))).collect();
        let above = sizes.iter().position(|gap| *gap > mean).unwrap_or(sizes.len() - 1);
        let (small, large) = (sizes[above - 1], sizes[above]);
        let share = (mean - small) as f64 / (large - small) as f64;
        let mixed = |at: u64| if (at as f64 * share).fract() < share { large } else { small };
        let mut worst = 0;
        for cost in [1, 2, 200] {
            for taken in [
                max_bytes_taken(&log, mixed, cost, 4 * limit),
                max_bytes_taken(&log, |_| mean + 1, cost, 4 * limit),
                max_bytes_taken(&log, |at| if at % 2 == 0 { 0 } else { 2 * mean + 1 }, cost, 4 * limit),
                max_bytes_taken(&log, |at| if at % limit == 0 { window_ms * 1_000_000 } else { 0 }, cost, 4 * limit),
                max_bytes_taken(&log, |at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (2 * mean + 1), cost, 4 * limit),
            ] {
                assert!(taken < bound, "{taken} of {bound} bytes: {limit} in {window_ms} ms, cost {cost}");
                worst = worst.max(taken);
            }
        }
        if limit >= 1_000 {
            let figure = format!("{limit} in {window_ms} ms: {worst} of {bound} bytes");
            assert!(worst * 10 >= bound * 8, "the bound is far above what is taken: {figure}");
        }
    }
}
