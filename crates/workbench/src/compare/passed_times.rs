//! The times at which requests of one client passed, as long as a window may contain them.

use std::collections::VecDeque;

use super::algorithm_run::ALGORITHM_COUNT;

const SECOND_NS: u64 = 1_000_000_000;

/// The requests of a client that passed in the last window under any algorithm.
#[derive(Default)]
pub(super) struct PassedTimes {
    /// The time and, as bits, the algorithms under which the request passed.
    entries: VecDeque<(u64, u8)>,
    in_window: Counts,
    /// The number of entries at the front that are older than a second.
    older_than_second: usize,
    in_second: Counts,
}

type Counts = [u64; ALGORITHM_COUNT];

impl PassedTimes {
    /// Adds a request, and returns for each algorithm how many passed in the window and in the second that end with it.
    pub(super) fn record(
        &mut self,
        now_ns: u64,
        passed: [bool; ALGORITHM_COUNT],
        window_ns: u64,
    ) -> [(u64, u64); ALGORITHM_COUNT] {
        self.forget_before(now_ns, window_ns);
        if passed.contains(&true) {
            let bits = passed.iter().enumerate().fold(0, |bits, (at, passed)| bits | (u8::from(*passed) << at));
            self.entries.push_back((now_ns, bits));
            add(&mut self.in_window, bits);
            add(&mut self.in_second, bits);
        }
        // A limit per millisecond has a window that is shorter than the second.
        std::array::from_fn(|at| (self.in_window[at], self.in_second[at]))
    }

    /// Drops what the window `(now - length, now]` and the second do not contain.
    fn forget_before(&mut self, now_ns: u64, window_ns: u64) {
        let kept_ns = window_ns.max(SECOND_NS);
        while let Some((time_ns, bits)) = self.entries.get(self.older_than_second)
            && now_ns - time_ns >= SECOND_NS
        {
            subtract(&mut self.in_second, *bits);
            self.older_than_second += 1;
        }
        if window_ns < SECOND_NS {
            self.recount_short_window(now_ns, window_ns);
        }
        while let Some((time_ns, bits)) = self.entries.front().copied()
            && now_ns - time_ns >= kept_ns
        {
            if window_ns >= SECOND_NS {
                subtract(&mut self.in_window, bits);
            }
            self.entries.pop_front();
            self.older_than_second = self.older_than_second.saturating_sub(1);
        }
    }

    /// Counts the entries of a window that is shorter than a second, of which there are few.
    fn recount_short_window(&mut self, now_ns: u64, window_ns: u64) {
        self.in_window = Counts::default();
        let newest = self.entries.iter().rev().take_while(|(time_ns, _)| now_ns - time_ns < window_ns);
        newest.for_each(|(_, bits)| add(&mut self.in_window, *bits));
    }
}

fn add(counts: &mut Counts, bits: u8) {
    counts.iter_mut().enumerate().for_each(|(at, count)| *count += u64::from(bits >> at & 1));
}

fn subtract(counts: &mut Counts, bits: u8) {
    counts.iter_mut().enumerate().for_each(|(at, count)| *count -= u64::from(bits >> at & 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the passed times in the half-open span that ends at `now_ns`.
    fn brute_force(times: &[(u64, [bool; ALGORITHM_COUNT])], now_ns: u64, span_ns: u64, at: usize) -> u64 {
        let is_in = |time_ns: u64| time_ns <= now_ns && now_ns - time_ns < span_ns;
        times.iter().filter(|(time_ns, passed)| is_in(*time_ns) && passed[at]).count() as u64
    }

    #[test]
    fn counts_equal_those_of_all_times() {
        for window_ns in [250_000_000, 1_000_000_000, 7_000_000_000] {
            let (mut passed, mut times) = (PassedTimes::default(), Vec::new());
            let (mut now_ns, mut random) = (SECOND_NS, crate::traffic::SeededRandom::new(3));
            for _ in 0..2_000 {
                now_ns += random.below(300_000_000);
                let bits = random.below(64);
                let outcome = std::array::from_fn(|at| bits >> at & 1 == 1);
                times.push((now_ns, outcome));
                let counts = passed.record(now_ns, outcome, window_ns);
                for (at, count) in counts.into_iter().enumerate() {
                    let expected =
                        (brute_force(&times, now_ns, window_ns, at), brute_force(&times, now_ns, SECOND_NS, at));
                    assert_eq!(count, expected, "window {window_ns}, algorithm {at}");
                }
            }
        }
    }
}
