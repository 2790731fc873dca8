use super::frequent_clients::{FrequentClients, Tracked};

/// The frequent clients of lately: two windows, the older of which is
/// forgotten when a new one begins. So what is told is of at least one whole
/// window and at most two, and yesterday's offender is gone.
#[derive(Debug)]
pub(in crate::observe) struct Windows {
    length_ns: u64,
    /// The number of the current window, counted from 1970.
    number: u64,
    /// When it ends. To compare is faster than to divide, and this is asked for every refusal.
    ends_ns: u64,
    current: FrequentClients,
    previous: FrequentClients,
}

impl Windows {
    pub(in crate::observe) fn new(length_ns: u64, capacity: usize) -> Windows {
        let nobody = FrequentClients::new(capacity);
        Windows { length_ns, number: 0, ends_ns: length_ns, current: nobody.clone(), previous: nobody }
    }

    /// Counts a client, and says whether he is new in this window.
    #[inline]
    pub(in crate::observe) fn count(&mut self, fingerprint: u64, weight: u64, now_ns: u64) -> (bool, &mut Tracked) {
        if now_ns >= self.ends_ns {
            self.turn_to(now_ns);
        }
        self.current.count(fingerprint, weight, now_ns)
    }

    /// The windows that are still in sight at that time.
    pub(in crate::observe) fn in_sight(&self, now_ns: u64) -> impl Iterator<Item = &FrequentClients> {
        let age = (now_ns / self.length_ns).saturating_sub(self.number);
        let current = (age <= 1).then_some(&self.current);
        current.into_iter().chain((age == 0).then_some(&self.previous))
    }

    /// The window before the one of that time: it is complete.
    pub(in crate::observe) fn complete(&self, now_ns: u64) -> Option<&FrequentClients> {
        match (now_ns / self.length_ns).saturating_sub(self.number) {
            0 => Some(&self.previous),
            1 => Some(&self.current),
            _ => None,
        }
    }

    pub(in crate::observe) fn clear(&mut self) {
        self.current.clear();
        self.previous.clear();
    }

    /// Begins the window of that time. Who counts at an earlier time, because
    /// clocks of threads differ, counts in the current one.
    #[cold]
    fn turn_to(&mut self, now_ns: u64) {
        let number = now_ns / self.length_ns;
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
        if number > self.number + 1 {
            self.previous.clear();
        }
        self.number = number;
        self.ends_ns = (number + 1).saturating_mul(self.length_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_NS: u64 = 1_000;

    fn total(windows: &Windows, now_ns: u64) -> u64 {
        windows.in_sight(now_ns).map(FrequentClients::total).sum()
    }

    #[test]
    fn what_is_two_windows_old_is_forgotten() {
        let mut windows = Windows::new(WINDOW_NS, 16);
        windows.count(7, 1, 5_500);
        assert_eq!((total(&windows, 5_999), total(&windows, 6_999), total(&windows, 7_000)), (1, 1, 0));
        assert!(!windows.count(7, 1, 5_999).0);
        assert!(windows.count(7, 1, 6_000).0);
        assert_eq!((total(&windows, 6_000), total(&windows, 7_000), total(&windows, 8_000)), (3, 1, 0));
        windows.count(7, 1, 9_000);
        assert_eq!(total(&windows, 9_000), 1);
    }

    #[test]
    fn only_a_window_that_is_over_is_complete() {
        let mut windows = Windows::new(WINDOW_NS, 16);
        windows.count(7, 3, 5_500);
        let complete = |windows: &Windows, now_ns| windows.complete(now_ns).map(FrequentClients::total);
        assert_eq!(
            (complete(&windows, 5_900), complete(&windows, 6_100), complete(&windows, 7_100)),
            (Some(0), Some(3), None)
        );
        windows.count(7, 1, 6_000);
        assert_eq!(complete(&windows, 6_100), Some(3));
    }

    #[test]
    fn a_clock_that_goes_back_counts_where_it_was() {
        let mut windows = Windows::new(WINDOW_NS, 16);
        windows.count(7, 1, 5_500);
        windows.count(7, 1, 4_500);
        assert_eq!(total(&windows, 5_500), 2);
    }
}
