//! A seeded pseudo-random number generator for traces.

/// SplitMix64.
pub(super) struct TraceRng(u64);

impl TraceRng {
    pub(super) fn new(seed: u64) -> TraceRng {
        TraceRng(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns true once in `n` times on average.
    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.below(from.len() as u64) as usize;
        &from[at]
    }

    /// Returns a number up to `most`, with all magnitudes equally likely.
    pub(super) fn magnitude(&mut self, most: u64) -> u64 {
        let bits = self.below(u64::from(65 - most.leading_zeros())) as u32;
        (self.next() & ((1_u64 << bits) | ((1_u64 << bits) - 1))).min(most)
    }
}
