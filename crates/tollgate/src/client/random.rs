//! JitterSource numbers for jitter. They need to differ between clients, and need not be unpredictable.

use std::hash::{BuildHasher, RandomState};

/// A generator with 64 bits of state (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct JitterSource {
    state: u64,
}

impl JitterSource {
    /// Creates a generator with a seed of the system.
    pub(super) fn new() -> JitterSource {
        JitterSource::seeded(RandomState::new().hash_one(0_u8))
    }

    pub(super) fn seeded(seed: u64) -> JitterSource {
        JitterSource { state: seed }
    }

    /// Returns a number from 0 to `max`.
    pub(super) fn up_to(&mut self, max: u64) -> u64 {
        let range = u128::from(max) + 1;
        // The upper half of the product is even, up to one part in 2^64.
        ((u128::from(self.next()) * range) >> 64) as u64
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_even_over_the_whole_range() {
        let mut random = JitterSource::seeded(7);
        let mut counts = [0; 10];
        (0..100_000).for_each(|_| counts[random.up_to(9) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(random.up_to(0), 0);
        assert!((0..10).any(|_| random.up_to(u64::MAX) > u64::MAX / 2));
    }
}
