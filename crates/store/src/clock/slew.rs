//! Slews a monotonic clock towards the system's clock without stepping.
//!
//! The counter's time is divided into segments of about a second. Within a segment the clock shows the counter plus a
//! correction that changes linearly, and each segment begins with the correction at the end of the previous one. So the
//! clock is one continuous function of the counter, the same for all threads. One word contains the whole current
//! segment, so a read of the clock is a read of the counter and a relaxed load. The first read in a new segment reads
//! the system's clock and writes the next word.

use std::sync::atomic::{AtomicU64, Ordering};

/// A segment lasts 2^30 ns, 1.07 s.
const SEGMENT_BITS: u32 = 30;
/// Corrections are stored in steps of 2^12 ns, 4.1 µs.
const STEP_BITS: u32 = 12;
/// The largest number of steps in one segment, in either direction: 127 · 2^12 / 2^30, 484 parts in a million.
const MAX_STEPS: i64 = 127;
/// The largest number of steps in a word: 26 days, which at 484 parts in a million take 147 years.
const MAX_TOTAL: i64 = (1 << 39) - 1;

/// The time `wall_ns` of the system's clock when the counter was at `raw_ns`, with an error of at most `half_ns`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockSample {
    pub(super) raw_ns: u64,
    pub(super) wall_ns: u64,
    pub(super) half_ns: u64,
}

/// The correction of a clock. It has its own cache line, because every read of the clock loads it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Slew(AtomicU64);

impl Slew {
    /// Creates a slew without a correction, starting in the segment of `raw_ns`.
    pub(super) fn from(raw_ns: u64) -> Slew {
        Slew(AtomicU64::new(SlewSegment { total: 0, steps: 0, number: number(raw_ns) }.word()))
    }

    /// Returns the value to add to the counter, modulo 2^64; `None` if a new segment has begun.
    #[inline(always)]
    pub(super) fn correction(&self, raw_ns: u64) -> Option<u64> {
        let segment = SlewSegment::of(self.0.load(Ordering::Relaxed));
        if segment.number == number(raw_ns) { Some(segment.correction(raw_ns)) } else { None }
    }

    /// Starts a new segment, and returns the time. `offset_ns` is the offset of the counter.
    pub(super) fn follow(&self, offset_ns: u64, sample: impl Fn() -> ClockSample) -> u64 {
        loop {
            // Loaded before the sample, so that the segment of this word has begun by then.
            let word = self.0.load(Ordering::Relaxed);
            let segment = SlewSegment::of(word);
            let sample = sample();
            let shown = |correction: u64| sample.raw_ns.wrapping_add(offset_ns).wrapping_add(correction);
            match number(sample.raw_ns).wrapping_sub(segment.number) {
                0 => return shown(segment.correction(sample.raw_ns)),
                // The counter of another core was slightly ahead.
                u16::MAX => return shown(segment.at_start()),
                passed => {
                    let ahead_ns = sample.wall_ns.wrapping_sub(sample.raw_ns.wrapping_add(offset_ns)) as i64;
                    let next = segment.next(passed, ahead_ns, sample.half_ns);
                    // The first thread that writes the word decides for all threads.
                    if self.0.compare_exchange(word, next.word(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                        return shown(next.correction(sample.raw_ns));
                    }
                }
            }
        }
    }
}

/// Returns the number of the segment, modulo 2^16 (19 hours).
#[inline(always)]
fn number(raw_ns: u64) -> u16 {
    (raw_ns >> SEGMENT_BITS) as u16
}

/// A segment: its number, the correction at its start in steps, and the steps added until its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlewSegment {
    number: u16,
    steps: i8,
    /// 40 bits.
    total: i64,
}

impl SlewSegment {
    #[inline(always)]
    fn of(word: u64) -> SlewSegment {
        SlewSegment { number: word as u16, steps: (word >> 16) as i8, total: word as i64 >> 24 }
    }

    fn word(self) -> u64 {
        (self.total as u64) << 24 | u64::from(self.steps as u8) << 16 | u64::from(self.number)
    }

    #[inline(always)]
    fn correction(self, raw_ns: u64) -> u64 {
        let into_ns = (raw_ns & ((1 << SEGMENT_BITS) - 1)) as i64;
        let gained_ns = (i64::from(self.steps) * into_ns) >> (SEGMENT_BITS - STEP_BITS);
        self.at_start().wrapping_add(gained_ns as u64)
    }

    #[inline(always)]
    fn at_start(self) -> u64 {
        (self.total << STEP_BITS) as u64
    }

    /// Returns the segment that is `passed` after this one. The system's clock is `ahead_ns` ahead of the counter with
    /// its offset, with an error of at most `half_ns`.
    ///
    /// Segments without a read count as corrected at the same bounded speed: that cannot be distinguished.
    fn next(self, passed: u16, ahead_ns: i64, half_ns: u64) -> SlewSegment {
        let ended = self.total + i64::from(self.steps);
        let missing = within(ahead_ns.saturating_sub(ended << STEP_BITS), half_ns) / (1 << STEP_BITS);
        // Corrections are clamped to the range of a word.
        let missing = missing.clamp(-MAX_TOTAL - ended, MAX_TOTAL - ended);
        let most_unread = MAX_STEPS * i64::from(passed - 1);
        let unread = missing.clamp(-most_unread, most_unread);
        let steps = (missing - unread).clamp(-MAX_STEPS, MAX_STEPS);
        SlewSegment { number: self.number.wrapping_add(passed), steps: steps as i8, total: ended + unread }
    }
}

/// Returns the part of an error that is certain, if it is known to `half_ns`.
fn within(error_ns: i64, half_ns: u64) -> i64 {
    let half_ns = i64::try_from(half_ns).unwrap_or(i64::MAX);
    if error_ns < 0 { error_ns.saturating_add(half_ns).min(0) } else { error_ns.saturating_sub(half_ns).max(0) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MS_NS: u64 = 1_000_000;
    const S_NS: u64 = 1_000 * MS_NS;
    const OFFSET_NS: u64 = 1_800_000_000 * S_NS;
    /// 484.4 parts in a million, rounded up.
    const MAX_PPM: u64 = 485;

    /// A clock whose counter and system clock are set by the test.
    struct SlewFixture {
        slew: Slew,
        raw_ns: Cell<u64>,
        wall_ns: Cell<u64>,
        half_ns: Cell<u64>,
    }

    impl SlewFixture {
        fn new() -> SlewFixture {
            let raw_ns = 77 * S_NS + 123_456_789;
            SlewFixture {
                slew: Slew::from(raw_ns),
                raw_ns: Cell::new(raw_ns),
                wall_ns: Cell::new(raw_ns + OFFSET_NS),
                half_ns: Cell::new(0),
            }
        }

        fn now_ns(&self) -> u64 {
            let raw_ns = self.raw_ns.get();
            let sample = || ClockSample { raw_ns, wall_ns: self.wall_ns.get(), half_ns: self.half_ns.get() };
            match self.slew.correction(raw_ns) {
                Some(correction) => raw_ns.wrapping_add(OFFSET_NS).wrapping_add(correction),
                None => self.slew.follow(OFFSET_NS, sample),
            }
        }

        /// The counter advances by `ns`, the system's clock by `ppm` parts in a million more.
        fn advance(&self, ns: u64, ppm: i64) {
            self.raw_ns.set(self.raw_ns.get() + ns);
            let more = ns as i64 * ppm / 1_000_000;
            self.wall_ns.set(self.wall_ns.get() + ns.checked_add_signed(more).unwrap());
        }

        fn step(&self, ns: i64) {
            self.wall_ns.set(self.wall_ns.get().checked_add_signed(ns).unwrap());
        }

        fn behind_ns(&self) -> i64 {
            self.wall_ns.get() as i64 - self.now_ns() as i64
        }
    }

    #[test]
    fn clock_follows_a_counter_that_runs_too_fast_or_too_slow_within_a_millisecond() {
        for ppm in [-400, -100, -1, 0, 1, 100, 400] {
            let fixture = SlewFixture::new();
            for second in 0..100_000 {
                fixture.advance(S_NS / 2 + second % 7 * 100 * MS_NS, ppm);
                let behind = fixture.behind_ns();
                assert!(behind.unsigned_abs() < MS_NS, "{behind} ns behind at {ppm} ppm");
            }
        }
    }

    #[test]
    fn clock_follows_a_step_at_a_bounded_speed_and_never_goes_back() {
        for step_ms in [-2_000, -1, 1, 2_000] {
            let fixture = SlewFixture::new();
            fixture.now_ns();
            fixture.step(step_ms * MS_NS as i64);
            let mut before = (fixture.raw_ns.get(), fixture.now_ns());
            for at in 0_u64.. {
                // From single nanoseconds to seconds.
                let ns = [1, 997, 65_537, 30 * MS_NS, 1_300 * MS_NS][(at % 5) as usize];
                fixture.advance(ns, 0);
                let after = (fixture.raw_ns.get(), fixture.now_ns());
                let shown = after.1.checked_sub(before.1).expect("time goes back");
                let slack = ns * MAX_PPM / 1_000_000 + 1;
                assert!(shown.abs_diff(ns) <= slack, "{ns} ns were shown as {shown}");
                before = after;
                if fixture.behind_ns().abs() < 5_000 {
                    break;
                }
                assert!(at < 50_000, "still {} ns behind", fixture.behind_ns());
            }
        }
    }

    #[test]
    fn first_read_after_hours_corrects_the_clock() {
        let fixture = SlewFixture::new();
        let before = fixture.now_ns();
        fixture.advance(10 * 3_600 * S_NS, 100);
        assert!(fixture.behind_ns().abs() < MS_NS as i64);
        fixture.step(-60 * S_NS as i64);
        fixture.advance(3_600 * S_NS, 0);
        let passed = fixture.now_ns() - before;
        assert!(passed.abs_diff(11 * 3_600 * S_NS) < 11 * 3_600 * S_NS * MAX_PPM / 1_000_000);
    }

    #[test]
    fn imprecise_samples_correct_only_the_certain_error() {
        let fixture = SlewFixture::new();
        fixture.half_ns.set(20 * MS_NS);
        fixture.step(10 * MS_NS as i64);
        fixture.advance(5 * S_NS, 0);
        assert_eq!(fixture.behind_ns(), 10 * MS_NS as i64);
    }

    #[test]
    fn counters_slightly_behind_on_other_cores_read_the_same_time() {
        let fixture = SlewFixture::new();
        fixture.step(S_NS as i64);
        let boundary = ((fixture.raw_ns.get() >> SEGMENT_BITS) + 1) << SEGMENT_BITS;
        fixture.raw_ns.set(boundary);
        let at_boundary = fixture.now_ns();
        fixture.raw_ns.set(boundary - 50);
        assert_eq!(fixture.now_ns(), at_boundary - 50);
    }

    #[test]
    fn words_represent_every_segment() {
        for segment in [
            SlewSegment { number: 0, steps: 0, total: 0 },
            SlewSegment { number: u16::MAX, steps: -127, total: -MAX_TOTAL },
            SlewSegment { number: 7, steps: 127, total: MAX_TOTAL },
        ] {
            assert_eq!(SlewSegment::of(segment.word()), segment);
        }
        // At the limits of a word the correction no longer changes.
        let full = SlewSegment { number: 7, steps: 0, total: MAX_TOTAL };
        assert_eq!(full.next(1, i64::MAX, 0), SlewSegment { number: 8, ..full });
    }
}
