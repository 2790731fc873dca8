use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// Counters that many threads add to and somebody sums now and then.
///
/// Threads are spread over copies of all counters, so that two processors
/// rarely add to the same cache line: what is counted with every decision would
/// otherwise travel between them with every decision.
#[derive(Debug)]
pub(crate) struct ShardedCounters {
    shards: Box<[Box<[Line]>]>,
}

/// The copy that belongs to the thread that asked for it.
#[derive(Clone, Copy)]
pub(crate) struct Shard<'a>(&'a [Line]);

/// A cache line, so that no two copies share one.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; LINE]);

const LINE: usize = 8;

/// More copies would take more memory than they save time.
const MOST_SHARDS: usize = 8;

impl ShardedCounters {
    /// So many counters, all at zero.
    pub(crate) fn new(count: usize) -> ShardedCounters {
        let shards = available_parallelism().map_or(1, usize::from).min(MOST_SHARDS);
        let copy = || (0..count.div_ceil(LINE)).map(|_| Line::default()).collect();
        ShardedCounters { shards: (0..shards).map(|_| copy()).collect() }
    }

    pub(crate) fn add(&self, at: usize, amount: u64) {
        self.mine().add(at, amount);
    }

    /// For a thread that has several counters to add to.
    pub(crate) fn mine(&self) -> Shard<'_> {
        Shard(&self.shards[thread_number() % self.shards.len()])
    }

    pub(crate) fn read(&self, at: usize) -> u64 {
        let of_shard = |shard: &[Line]| shard[at / LINE].0[at % LINE].load(Ordering::Relaxed);
        self.shards.iter().fold(0, |sum, shard| sum.wrapping_add(of_shard(shard)))
    }
}

impl Shard<'_> {
    /// Nothing else depends on a counter, so its order among other writes does not matter.
    pub(crate) fn add(self, at: usize, amount: u64) {
        self.0[at / LINE].0[at % LINE].fetch_add(amount, Ordering::Relaxed);
    }
}

/// Threads are numbered as they come, so that as many as there are shards each have their own.
fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    // A thread that is about to end counts where the first one does.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_threads_add_is_summed() {
        let counters = ShardedCounters::new(20);
        std::thread::scope(|scope| {
            for _ in 0..MOST_SHARDS + 2 {
                scope.spawn(|| (0..100).for_each(|_| counters.add(19, 2)));
            }
        });
        assert_eq!((counters.read(19), counters.read(18), counters.read(0)), (2_000, 0, 0));
    }
}
