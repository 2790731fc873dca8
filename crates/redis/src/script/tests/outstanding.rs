//! Tokens leased ahead of requests, in the model of the script.

/// The tokens of a key that were leased in two generations, and are neither settled nor expired.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outstanding {
    /// The length of a generation.
    length: u64,
    pub(super) generation: u64,
    /// The tokens leased in the generation before.
    previous: u64,
    pub(super) current: u64,
}

impl Outstanding {
    /// Returns none, in the generation of `now`.
    pub(super) fn starting_at(now: u64, length: u64) -> Outstanding {
        Outstanding { length, generation: now / length, previous: 0, current: 0 }
    }

    pub(super) fn total(&self) -> u64 {
        self.previous + self.current
    }

    /// Returns the ends of the leases of the generation before and of the current one.
    pub(super) fn ends(&self) -> [u64; 2] {
        [(self.generation + 1) * self.length, (self.generation + 2) * self.length]
    }

    /// Returns the time for which a lease of the current generation lasts.
    pub(super) fn expires_in(&self, now: u64) -> u64 {
        (self.ends()[1] - now).min(2 * self.length)
    }

    /// Returns the tokens leased in a generation.
    pub(super) fn of_generation(&mut self, generation: u64) -> Option<&mut u64> {
        match self.generation.checked_sub(generation) {
            Some(0) => Some(&mut self.current),
            Some(1) => Some(&mut self.previous),
            _ => None,
        }
    }

    /// If the clock went back, a generation is no further ahead than the next one.
    pub(super) fn follow_clock_back(&mut self, now: u64) {
        let latest = now / self.length + 1;
        if self.generation > latest {
            *self = Outstanding { generation: latest, previous: 0, current: self.total(), ..*self };
        }
    }

    /// Removes the tokens of the generations that have ended by `now`, the older first. Calls `charge` with the end of
    /// each and its tokens.
    pub(super) fn expire(&mut self, now: u64, mut charge: impl FnMut(u64, u64)) {
        let [older, newer] = self.ends();
        if older <= now {
            charge(older, self.previous);
            *self = Outstanding { previous: self.current, current: 0, generation: self.generation + 1, ..*self };
        }
        if newer <= now {
            charge(newer, self.previous);
            self.previous = 0;
        }
    }
}
