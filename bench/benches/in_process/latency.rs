//! The latency of single checks while keys are created and expire: pauses that medians hide.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::contestants::{Contestant, Governor, QuotaSpec, Tally, Tollgate};
use crate::figures::{Figures, report};
use crate::keys::BenchKey;
use crate::measure::{Gate, pin_to_core};
use crate::options::Effort;
use crate::rounds::touch_all;
use crate::workloads::THREADS;

const KEYS: u64 = 10_000_000;
/// The time in which about as many new keys are created, by the number of threads.
const FORGOTTEN_AFTER: [Duration; 2] = [Duration::from_millis(2_500), Duration::from_millis(1_500)];
/// The approximate time of a check of a new key.
const BUSY: Duration = Duration::from_nanos(250);
pub(crate) const SUBJECTS: [&str; 4] = ["empty loop", "busy loop", "tollgate", "governor+foldhash"];
pub(crate) const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];

/// The name of a figure: a percentile or `max`, in nanoseconds; `live` keys and `evictions`.
pub(crate) fn figure(subject: &str, threads: usize, what: &str) -> String {
    format!("latency/{subject}/{threads}/{what}")
}

/// Measures one subject in this process.
///
/// The table is filled with ten million keys; then every check is of a new key. A key expires after about the time in
/// which ten million others are created, so the number of keys stays the same.
///
/// Two controls do nothing, one as fast as possible and one for as long as a check: they show the tail latency that
/// the machine causes.
pub(crate) fn run(subject: &str, threads: usize, effort: Effort) {
    let spec = QuotaSpec { token: FORGOTTEN_AFTER[threads - 1], burst: 1 };
    let checks = effort.checks(12_000_000) as u64 / threads as u64;
    let allowed = AtomicU64::new(0);
    let measure = |check: &(dyn Fn(&String, &mut Tally) + Sync)| {
        let histogram = churn(check, threads, checks, &allowed);
        for (name, percentile) in PERCENTILES {
            report(&figure(subject, threads, name), histogram.value_at_percentile(percentile) as f64);
        }
        report(&figure(subject, threads, "max"), histogram.max() as f64);
    };
    match subject {
        "tollgate" => {
            let tollgate = Tollgate::new(spec, KEYS as usize);
            fill(&tollgate);
            measure(&|key, tally| tally.note(&tollgate.store.check(&tollgate.limit, key, 1)));
            let stats = tollgate.store.stats();
            report(&figure(subject, threads, "live"), stats.live_keys as f64);
            report(&figure(subject, threads, "evictions"), stats.evictions as f64);
        }
        "governor+foldhash" => {
            let governor = Governor::<String, foldhash::fast::RandomState>::new(spec);
            fill(&governor);
            measure(&|key, tally| tally.allowed += u64::from(governor.is_allowed(key)));
            report(&figure(subject, threads, "live"), governor.len() as f64);
        }
        // Takes as long as a check, so that it is interrupted as often.
        "busy loop" => measure(&|_, tally| {
            let start = Instant::now();
            while start.elapsed() < BUSY {
                std::hint::spin_loop();
            }
            tally.allowed += 1;
        }),
        _ => measure(&|_, tally| tally.allowed += 1),
    }
    let (allowed, asked) = (allowed.into_inner(), checks * threads as u64);
    assert!(allowed == asked, "{subject}: {allowed} of {asked} new keys allowed");
}

fn fill(contestant: &dyn Contestant<String>) {
    touch_all(contestant, KEYS, "the fill");
}

/// Times every check.
fn churn(
    check: &(dyn Fn(&String, &mut Tally) + Sync),
    threads: usize,
    checks: u64,
    allowed: &AtomicU64,
) -> Histogram<u64> {
    let clock = quanta::Clock::new();
    let gate = Gate::new(threads);
    let run = &|thread: usize| {
        pin_to_core(thread);
        let mut histogram = empty_histogram();
        let mut tally = Tally::default();
        let mut key = String::of(0);
        gate.wait();
        for turn in 0..checks {
            key.become_key(KEYS + turn * threads as u64 + thread as u64);
            let start = fenced(&clock);
            check(&key, &mut tally);
            let end = fenced(&clock);
            histogram.saturating_record(clock.delta_as_nanos(start, end));
        }
        allowed.fetch_add(tally.allowed, Ordering::Relaxed);
        std::hint::black_box(tally);
        histogram
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let mut all = empty_histogram();
        for thread in threads {
            all += thread.join().unwrap_or_else(|_| panic!("a thread panicked"));
        }
        all
    })
}

/// Reads the cycle counter, fenced, so that the loads of a check are within its time.
#[inline]
fn fenced(clock: &quanta::Clock) -> u64 {
    fence();
    let raw = clock.raw();
    fence();
    raw
}

#[inline]
fn fence() {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "the standard library has no fence that waits for loads")]
    // SAFETY: lfence is part of SSE2, which every x86-64 processor has.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// Up to a minute, to three digits.
fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn run_parts(figures: &mut Figures, effort: Effort) {
    for threads in THREADS {
        for subject in SUBJECTS {
            eprintln!("latency, {subject}, {threads} threads");
            figures.run_part(&["latency", subject, &threads.to_string(), effort.name()]);
        }
    }
}

pub(crate) fn print_table(figures: &Figures) {
    println!("\n### Latency of a check of a new key among ten million, ns\n");
    println!("| | threads | p50 | p99 | p99.9 | p99.99 | max | keys at the end | live keys evicted |");
    println!("| --- | --- |{}", " --- |".repeat(7));
    for threads in THREADS {
        for subject in SUBJECTS {
            let names = PERCENTILES.map(|(name, _)| name).into_iter().chain(["max", "live", "evictions"]);
            let cells: Vec<_> = names.map(|what| figures.cell(&figure(subject, threads, what), 0)).collect();
            println!("| {subject} | {threads} | {} |", cells.join(" | "));
        }
    }
}
