//! Timing: threads that start together, rounds in rotating order, medians.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::contestants::{Contestant, Tally};
use crate::keys::{BenchKey, Sequence};

/// One timed run: nanoseconds per check of one thread, and the decisions.
pub(crate) struct Stretch {
    pub(crate) ns_per_check: f64,
    pub(crate) allowed: u64,
    pub(crate) checks: u64,
}

/// Lets one contestant decide a sequence for each thread. The first `warm_up` keys of each are not timed: they load
/// the contestant's state into the cache again.
pub(crate) fn stretch<K: BenchKey>(
    contestant: &dyn Contestant<K>,
    sequences: &[Sequence<K>],
    warm_up: usize,
    checks: usize,
) -> Stretch {
    let gate = Gate::new(sequences.len());
    let run = &|(thread, sequence): (usize, &Sequence<K>)| {
        pin_to_core(thread);
        let (warming, timed) = sequence.order[..warm_up + checks].split_at(warm_up);
        black_box(contestant.run(&sequence.keys, warming));
        gate.wait();
        let start = Instant::now();
        let tally: Tally = black_box(contestant.run(&sequence.keys, timed));
        (start, Instant::now(), tally)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = sequences.iter().enumerate().map(|item| scope.spawn(move || run(item))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panic!("a contestant panicked"))).collect()
    });
    let start = results.iter().map(|(start, _, _)| *start).min();
    let end = results.iter().map(|(_, end, _)| *end).max();
    let wall = start.zip(end).map_or(0, |(start, end)| (end - start).as_nanos());
    Stretch {
        ns_per_check: wall as f64 / checks as f64,
        allowed: results.iter().map(|(_, _, tally)| tally.allowed).sum(),
        checks: (checks * sequences.len()) as u64,
    }
}

/// Returns the median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A barrier from which threads start together. It spins: waking up a thread takes as long as a thousand checks.
pub(crate) struct Gate {
    missing: AtomicUsize,
}

impl Gate {
    pub(crate) fn new(threads: usize) -> Gate {
        Gate { missing: AtomicUsize::new(threads) }
    }

    pub(crate) fn wait(&self) {
        self.missing.fetch_sub(1, Ordering::AcqRel);
        let mut spins = 0_u32;
        while self.missing.load(Ordering::Acquire) > 0 {
            spins += 1;
            if spins.is_multiple_of(1 << 12) {
                // Another process may use the core of the awaited thread.
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Pins a thread to a core. If that fails, the figures only vary more.
pub(crate) fn pin_to_core(thread: usize) {
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code, reason = "the standard library cannot pin a thread")]
    // SAFETY: the set is plain bits on our stack, of the size that is passed along.
    unsafe {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        // From the last core down: the first one takes most interrupts.
        libc::CPU_SET(cores - 1 - thread % cores, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = thread;
}
