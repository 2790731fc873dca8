//! The real clock compared with the system's. In a separate process: only the first clock of a process has to measure
//! the frequency of its counter.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_store::{Clock, RealClock};

fn wall_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// Returns how far the clock is behind the system's, from the closest pair of readings of the latter.
fn behind_ns(clock: &RealClock) -> i64 {
    let pairs = (0..1_000).map(|_| {
        let (before, now, after) = (wall_ns(), clock.now_ns() as i64, wall_ns());
        (after - before, i64::midpoint(before, after) - now)
    });
    pairs.min().unwrap().1
}

/// The clock is the real one, so this waits for it: the clock reads the system's once in 1.07 s.
#[test]
fn first_clock_of_a_process_shows_the_time_of_day_and_keeps_it() {
    let clock = RealClock::new();
    let behind = behind_ns(&clock);
    assert!(behind.abs() < 50_000, "{behind} ns behind at the start");
    let clone = clock.clone();
    let mut last = clock.now_ns();
    for _ in 0..12 {
        std::thread::sleep(Duration::from_millis(100));
        for clock in [&clock, &clone] {
            let now = clock.now_ns();
            assert!(now >= last, "time goes back");
            last = now;
        }
    }
    let behind = behind_ns(&clock);
    assert!(behind.abs() < 1_000_000, "{behind} ns behind after a second");
}
