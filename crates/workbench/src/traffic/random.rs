//! Random numbers from a seed, the same on every machine.

/// A generator of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// Creates a generator. Equal seeds give equal numbers.
    #[must_use]
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed)
    }

    /// Returns a number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `end`, without `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        scaled(self.number(), end)
    }

    /// Returns an exponentially distributed number with this mean: the time between two arrivals of a Poisson process.
    ///
    /// By von Neumann's method, which compares random numbers and needs no logarithm: a first number `u` is accepted
    /// with the probability `e^-u`, which is that the descending run of numbers after it has an even length.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.number();
            let (mut last, mut run) = (first, 1);
            loop {
                let next = self.number();
                run += 1;
                if next > last {
                    break;
                }
                last = next;
            }
            if run % 2 == 0 {
                return u64::saturating_add(mean.saturating_mul(whole), scaled(first, mean));
            }
            whole += 1;
        }
    }
}

/// Maps a random number to 0 up to `end`.
fn scaled(number: u64, end: u64) -> u64 {
    ((u128::from(number) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_numbers_have_their_mean_and_median() {
        let mut random = SeededRandom::new(7);
        let mut numbers: Vec<u64> = (0..100_000).map(|_| random.exponential(1_000_000)).collect();
        numbers.sort_unstable();
        let mean = numbers.iter().sum::<u64>() / 100_000;
        assert!(mean.abs_diff(1_000_000) < 10_000, "{mean}");
        // The median is the mean times ln 2.
        assert!(numbers[50_000].abs_diff(693_147) < 10_000, "{}", numbers[50_000]);
    }
}
