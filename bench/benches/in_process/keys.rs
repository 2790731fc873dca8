//! Keys, and the order in which they are used.

use std::collections::HashSet;
use std::hash::Hash;

/// A key of the benchmark.
pub(crate) trait BenchKey: tollgate_store::Key + Hash + Eq + Clone + Send + Sync + Sized + 'static {
    /// The key with this number.
    fn of(number: u64) -> Self;

    /// Changes to another key, without allocation.
    fn become_key(&mut self, number: u64);
}

impl BenchKey for u64 {
    fn of(number: u64) -> u64 {
        number
    }

    fn become_key(&mut self, number: u64) {
        *self = number;
    }
}

/// 13 bytes, like `user-00012345`.
impl BenchKey for String {
    fn of(number: u64) -> String {
        let mut key = String::with_capacity(13);
        key.become_key(number);
        key
    }

    fn become_key(&mut self, mut number: u64) {
        let mut digits = [b'0'; 8];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        assert!(number == 0, "key numbers have eight digits");
        self.clear();
        self.push_str("user-");
        self.push_str(str::from_utf8(&digits).unwrap_or_default());
    }
}

/// The number of keys and their distribution.
pub(crate) struct Population {
    pub(crate) keys: u64,
    zipf: Option<Zipf>,
}

impl Population {
    pub(crate) fn uniform(keys: u64) -> Population {
        Population { keys, zipf: None }
    }

    /// The key of rank r is used in proportion to 1 / r.
    pub(crate) fn zipf(keys: u64) -> Population {
        Population { keys, zipf: Some(Zipf::new(keys)) }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        /// Spreads ranks over the numbers, so that popular keys are not adjacent in memory. It is prime and above any
        /// population, so no two ranks have the same number.
        const SPREAD: u64 = 2_147_483_647;
        match &self.zipf {
            Some(zipf) => zipf.rank(random) * SPREAD % self.keys,
            None => random.below(self.keys),
        }
    }
}

/// Keys of one thread in one round, drawn beforehand.
///
/// A small population is in a pool that stays in the cache, and `order` has random positions in it. Keys of a large
/// population are stored in the order of use, so that reading the key itself is a sequential read for every
/// contestant, as cheap as for a request that has just arrived.
pub(crate) struct Sequence<K> {
    pub(crate) keys: Vec<K>,
    pub(crate) order: Vec<u32>,
    random: Random,
}

/// The largest pooled population: 1,000 strings fit into a second-level cache.
const POOLED: u64 = 1_000;

impl<K: BenchKey> Sequence<K> {
    /// Allocates `len` keys. Called before other allocations, so that the keys are contiguous.
    pub(crate) fn with_room(len: usize, seed: u64) -> Sequence<K> {
        Sequence {
            keys: (0..len as u64).map(|_| K::of(0)).collect(),
            order: (0..len as u32).collect(),
            random: Random(seed),
        }
    }

    /// Draws all keys anew.
    pub(crate) fn draw(&mut self, population: &Population) {
        if population.keys <= POOLED {
            for number in 0..population.keys {
                self.keys[number as usize].become_key(number);
            }
            for at in &mut self.order {
                *at = population.draw(&mut self.random) as u32;
            }
        } else {
            for (key, (place, at)) in self.keys.iter_mut().zip(self.order.iter_mut().enumerate()) {
                key.become_key(population.draw(&mut self.random));
                *at = place as u32;
            }
        }
    }

    /// Returns the number of different keys.
    pub(crate) fn distinct(&self) -> usize {
        self.order.iter().map(|&at| &self.keys[at as usize]).collect::<HashSet<_>>().len()
    }
}

/// Ranks from 0, by binary search in the cumulated weights. Slow, and never timed.
struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    fn new(keys: u64) -> Zipf {
        let mut sum = 0.0;
        let weigh = |rank: u64| {
            sum += 1.0 / rank as f64;
            sum
        };
        Zipf { cumulated: (1..=keys).map(weigh).collect() }
    }

    fn rank(&self, random: &mut Random) -> u64 {
        let total = self.cumulated.last().copied().unwrap_or(0.0);
        let at = random.fraction() * total;
        let rank = self.cumulated.partition_point(|&sum| sum <= at);
        rank.min(self.cumulated.len() - 1) as u64
    }
}

/// SplitMix64: the same keys in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
