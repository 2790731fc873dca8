use std::sync::Arc;

/// The most frequent clients of a stream, in bounded memory.
///
/// The Space-Saving algorithm with evictions in batches. Each tracked client has a count and an error, such that
///
/// ```text
/// count - error <= true count <= count
/// ```
///
/// and each untracked client has occurred at most `floor` times. When the table is full, the floor rises to the median
/// of the counts, and clients at or below it are evicted; a new client starts at the floor, with that as its error.
/// Every rise by `d` takes `d` from at least half of the counters, so the floor is at most `2 * total / capacity`.
#[derive(Clone, Debug)]
pub(in crate::observe) struct FrequentClients {
    /// Open addressing, at most half full. Empty until the first count.
    slots: Vec<TrackedClient>,
    tracked: usize,
    capacity: usize,
    floor: u64,
    total: u64,
}

/// One client.
#[derive(Clone, Debug, Default)]
pub(in crate::observe) struct TrackedClient {
    /// 0 for an empty slot.
    pub(in crate::observe) fingerprint: u64,
    pub(in crate::observe) count: u64,
    pub(in crate::observe) error: u64,
    pub(in crate::observe) last_seen_ns: u64,
    /// The client ID, once it is derived.
    pub(in crate::observe) name: Option<Arc<str>>,
}

/// The initial number of slots.
const FIRST_SLOTS: usize = 16;

impl FrequentClients {
    /// Creates an empty table for at most `capacity` clients.
    pub(in crate::observe) fn new(capacity: usize) -> FrequentClients {
        let capacity = capacity.max(FIRST_SLOTS / 2).next_power_of_two();
        FrequentClients { slots: Vec::new(), tracked: 0, capacity, floor: 0, total: 0 }
    }

    /// Counts a client, and returns whether it is new.
    #[inline]
    pub(in crate::observe) fn count(
        &mut self,
        fingerprint: u64,
        weight: u64,
        now_ns: u64,
    ) -> (bool, &mut TrackedClient) {
        // 0 marks an empty slot. A client with that fingerprint shares it with another.
        let fingerprint = fingerprint.max(1);
        self.total += weight;
        let (mut at, is_new) = self.find(fingerprint);
        if is_new {
            at = self.begin(fingerprint, at);
        }
        let tracked = &mut self.slots[at];
        tracked.count += weight;
        tracked.last_seen_ns = now_ns;
        (is_new, tracked)
    }

    /// Starts to track a client, and returns its slot.
    #[inline(never)]
    fn begin(&mut self, fingerprint: u64, mut at: usize) -> usize {
        if self.ensure_space() {
            at = self.find(fingerprint).0;
        }
        self.tracked += 1;
        self.slots[at] =
            TrackedClient { fingerprint, count: self.floor, error: self.floor, last_seen_ns: 0, name: None };
        at
    }

    /// Returns the tracked clients.
    pub(in crate::observe) fn tracked(&self) -> impl Iterator<Item = &TrackedClient> {
        self.slots.iter().filter(|slot| slot.fingerprint != 0)
    }

    /// Returns the highest possible count of an untracked client.
    pub(in crate::observe) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the total count.
    pub(in crate::observe) fn total(&self) -> u64 {
        self.total
    }

    /// Clears the table, and keeps its memory.
    pub(in crate::observe) fn clear(&mut self) {
        self.slots.fill(TrackedClient::default());
        (self.tracked, self.floor, self.total) = (0, 0, 0);
    }

    /// Returns the slot of a client, and whether it is new.
    #[inline]
    fn find(&self, fingerprint: u64) -> (usize, bool) {
        if self.slots.is_empty() {
            return (0, true);
        }
        let mask = self.slots.len() - 1;
        let mut at = usize::try_from(fingerprint & mask as u64).unwrap_or(0);
        loop {
            match self.slots[at].fingerprint {
                0 => return (at, true),
                found if found == fingerprint => return (at, false),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Makes space for one more client. `true` if clients have moved.
    fn ensure_space(&mut self) -> bool {
        if self.tracked >= self.capacity {
            self.raise_floor();
            return true;
        }
        if self.tracked * 2 < self.slots.len() {
            return false;
        }
        let larger = (self.slots.len() * 2).max(FIRST_SLOTS);
        let moved = std::mem::replace(&mut self.slots, vec![TrackedClient::default(); larger]);
        self.insert_all(moved);
        true
    }

    fn raise_floor(&mut self) {
        let mut counts: Vec<u64> = self.tracked().map(|tracked| tracked.count).collect();
        let middle = counts.len() / 2;
        self.floor = *counts.select_nth_unstable(middle).1;
        let floor = self.floor;
        let tracked = self.slots.iter_mut().filter(|slot| slot.fingerprint != 0).map(std::mem::take);
        let stay: Vec<TrackedClient> = tracked.filter(|tracked| tracked.count > floor).collect();
        self.insert_all(stay);
    }

    fn insert_all(&mut self, moved: Vec<TrackedClient>) {
        self.tracked = 0;
        for tracked in moved.into_iter().filter(|tracked| tracked.fingerprint != 0) {
            let (at, _) = self.find(tracked.fingerprint);
            self.slots[at] = tracked;
            self.tracked += 1;
        }
    }
}

/// Recent frequent clients: two windows, the older of which is cleared when a new one begins. So results cover between
/// one and two windows.
#[derive(Debug)]
pub(in crate::observe) struct ClientWindows {
    length_ns: u64,
    /// The index of the current window since 1970.
    number: u64,
    /// When it ends. A comparison is faster than a division, and this is checked for every refusal.
    ends_ns: u64,
    current: FrequentClients,
    previous: FrequentClients,
}

impl ClientWindows {
    pub(in crate::observe) fn new(length_ns: u64, capacity: usize) -> ClientWindows {
        let empty = FrequentClients::new(capacity);
        ClientWindows { length_ns, number: 0, ends_ns: length_ns, current: empty.clone(), previous: empty }
    }

    /// Counts a client, and returns whether it is new in this window.
    #[inline]
    pub(in crate::observe) fn count(
        &mut self,
        fingerprint: u64,
        weight: u64,
        now_ns: u64,
    ) -> (bool, &mut TrackedClient) {
        if now_ns >= self.ends_ns {
            self.rotate_to(now_ns);
        }
        self.current.count(fingerprint, weight, now_ns)
    }

    /// Returns the windows that are recent at that time.
    pub(in crate::observe) fn recent(&self, now_ns: u64) -> impl Iterator<Item = &FrequentClients> {
        let age = (now_ns / self.length_ns).saturating_sub(self.number);
        let current = (age <= 1).then_some(&self.current);
        current.into_iter().chain((age == 0).then_some(&self.previous))
    }

    /// Returns the complete window before that time.
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

    /// Starts the window of that time. Counts with an earlier time, because clocks of threads differ, go to the
    /// current window.
    #[cold]
    fn rotate_to(&mut self, now_ns: u64) {
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
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Spreads small numbers like a hash.
    fn fingerprint(client: u64) -> u64 {
        (client + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    }

    fn check(capacity: usize, stream: &[(u64, u64)]) {
        let mut frequent = FrequentClients::new(capacity);
        let mut exact: HashMap<u64, u64> = HashMap::new();
        for (at, (client, weight)) in stream.iter().enumerate() {
            frequent.count(fingerprint(*client), *weight, at as u64);
            *exact.entry(fingerprint(*client)).or_default() += weight;
        }
        let total: u64 = exact.values().sum();
        assert_eq!(frequent.total(), total);
        assert!(frequent.floor() * capacity as u64 <= 2 * total, "floor {} of {total}", frequent.floor());
        let mut seen = 0;
        for tracked in frequent.tracked() {
            let actual = exact.remove(&tracked.fingerprint).unwrap();
            assert!(tracked.count - tracked.error <= actual && actual <= tracked.count, "{tracked:?} is {actual}");
            seen += 1;
        }
        assert!(seen <= capacity);
        for (_, actual) in exact {
            assert!(actual <= frequent.floor(), "a client with {actual} is missing above {}", frequent.floor());
        }
    }

    proptest! {
        #[test]
        fn true_count_is_within_the_error(
            heavy in prop::collection::vec((0_u64..10, 1_u64..20), 0..400),
            light in prop::collection::vec((0_u64..2_000, 1_u64..3), 0..2_000),
            capacity in prop::sample::select(vec![8_usize, 16, 64, 128]),
            order in any::<u64>(),
        ) {
            let mut stream: Vec<(u64, u64)> = heavy.into_iter().chain(light).collect();
            // Any order works, as long as failing cases are reproducible.
            stream.sort_by_key(|(client, weight)| fingerprint(client ^ order).rotate_left(*weight as u32));
            check(capacity, &stream);
        }
    }

    #[test]
    fn counts_are_exact_without_evictions() {
        let mut frequent = FrequentClients::new(128);
        for round in 0..100 {
            for client in 0..128 {
                let (is_new, _) = frequent.count(fingerprint(client), 1, round);
                assert_eq!(is_new, round == 0);
            }
        }
        assert_eq!((frequent.floor(), frequent.tracked().count()), (0, 128));
        assert!(frequent.tracked().all(|tracked| (tracked.count, tracked.error) == (100, 0)));
    }

    #[test]
    fn heavy_client_stays_tracked_among_many_others() {
        let mut frequent = FrequentClients::new(128);
        for other in 0..200_000 {
            frequent.count(fingerprint(other + 1), 1, other);
            if other % 20 == 0 {
                frequent.count(fingerprint(0), 1, other);
            }
        }
        let heavy = frequent.tracked().max_by_key(|tracked| tracked.count).unwrap();
        assert_eq!(heavy.fingerprint, fingerprint(0));
        assert!(heavy.count - heavy.error <= 10_000 && 10_000 <= heavy.count);
        assert!(heavy.error <= 2 * 210_000 / 128);
        assert_eq!(frequent.slots.len(), 256);
    }

    const WINDOW_NS: u64 = 1_000;

    fn total(windows: &ClientWindows, now_ns: u64) -> u64 {
        windows.recent(now_ns).map(FrequentClients::total).sum()
    }

    #[test]
    fn counts_expire_after_two_windows() {
        let mut windows = ClientWindows::new(WINDOW_NS, 16);
        windows.count(7, 1, 5_500);
        assert_eq!((total(&windows, 5_999), total(&windows, 6_999), total(&windows, 7_000)), (1, 1, 0));
        assert!(!windows.count(7, 1, 5_999).0);
        assert!(windows.count(7, 1, 6_000).0);
        assert_eq!((total(&windows, 6_000), total(&windows, 7_000), total(&windows, 8_000)), (3, 1, 0));
        windows.count(7, 1, 9_000);
        assert_eq!(total(&windows, 9_000), 1);
    }

    #[test]
    fn only_past_windows_are_complete() {
        let mut windows = ClientWindows::new(WINDOW_NS, 16);
        windows.count(7, 3, 5_500);
        let complete = |windows: &ClientWindows, now_ns| windows.complete(now_ns).map(FrequentClients::total);
        assert_eq!(
            (complete(&windows, 5_900), complete(&windows, 6_100), complete(&windows, 7_100)),
            (Some(0), Some(3), None)
        );
        windows.count(7, 1, 6_000);
        assert_eq!(complete(&windows, 6_100), Some(3));
    }

    #[test]
    fn earlier_times_count_in_the_current_window() {
        let mut windows = ClientWindows::new(WINDOW_NS, 16);
        windows.count(7, 1, 5_500);
        windows.count(7, 1, 4_500);
        assert_eq!(total(&windows, 5_500), 2);
    }
}
