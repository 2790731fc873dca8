//! Bytes per key: the growth of a process by the number of its keys.

use std::hash::RandomState;
use std::time::Duration;

use tollgate_store::{Quota, Rate};

use crate::contestants::{Contestant, CustomBucket, Governor, QuotaSpec, Tollgate};
use crate::figures::{Figures, report};
use crate::options::Effort;
use crate::rounds::count_allowed;

const MILLION: u64 = 1_000_000;

/// The measurements: name, numbers of keys, checks of each key.
const SUBJECTS: [(&str, &[u64], u64); 9] = [
    ("tollgate, token bucket", &[MILLION, 10 * MILLION], 1),
    ("tollgate, fixed window", &[MILLION, 10 * MILLION], 1),
    ("tollgate, sliding window counter", &[MILLION, 10 * MILLION], 1),
    ("tollgate, sliding window log, 5 entries", &[MILLION], 5),
    ("tollgate, sliding window log, 100 entries", &[MILLION / 10], 100),
    ("tollgate, concurrency, 1 holder", &[MILLION, 10 * MILLION], 1),
    ("governor, token bucket", &[MILLION, 10 * MILLION], 1),
    ("governor+foldhash, token bucket", &[MILLION, 10 * MILLION], 1),
    ("DashMap, token bucket", &[MILLION, 10 * MILLION], 1),
];

pub(crate) const TOKEN_BUCKET: &str = SUBJECTS[0].0;

/// The name of a figure: `bytes` a key, or live keys `lost`, in a store built for `times` as many keys.
pub(crate) fn figure(subject: &str, keys: u64, times: u64, what: &str) -> String {
    format!("memory/{subject}/{keys}/{times}/{what}")
}

/// Measures one subject in this process.
pub(crate) fn run(at: usize, keys: u64, times: u64) {
    let (name, _, checks_per_key) = SUBJECTS[at];
    let before = resident_bytes();
    let (evictions, contestant) = build(name, (keys * times) as usize);
    // Held permits are never evicted: if the store is full, a new key is refused.
    let refused: u64 = (0..checks_per_key).map(|_| keys - count_allowed(&*contestant, keys)).sum();
    let bytes = resident_bytes().saturating_sub(before);
    report(&figure(name, keys, times, "bytes"), bytes as f64 / keys as f64);
    report(&figure(name, keys, times, "lost"), (evictions() + refused) as f64);
}

type Subject = (Box<dyn Fn() -> u64>, Box<dyn Contestant<String>>);

fn build(name: &str, capacity: usize) -> Subject {
    let spec = QuotaSpec { token: Duration::from_secs(3_600), burst: 10 };
    let contestant: Box<dyn Contestant<String>> = match name.split_once(", ") {
        Some(("tollgate", algorithm)) => {
            let tollgate = Tollgate::under(quota(algorithm, spec), capacity);
            let store = std::sync::Arc::clone(&tollgate.store);
            return (Box::new(move || store.stats().evictions), Box::new(tollgate));
        }
        Some(("governor", _)) => Box::new(Governor::<String, RandomState>::new(spec)),
        Some(("governor+foldhash", _)) => Box::new(Governor::<String, foldhash::fast::RandomState>::new(spec)),
        _ => Box::new(CustomBucket::<String>::new(spec)),
    };
    (Box::new(|| 0), contestant)
}

fn quota(algorithm: &str, spec: QuotaSpec) -> Quota {
    let hourly = Rate::new(100, Duration::from_secs(3_600)).unwrap_or_else(|error| panic!("{error}"));
    let quota = match algorithm {
        "fixed window" => Quota::fixed_window(hourly),
        "sliding window counter" => Quota::sliding_window_counter(hourly),
        "concurrency, 1 holder" => Quota::concurrency(100, Some(Duration::from_secs(3_600))),
        log if log.starts_with("sliding window log") => Quota::sliding_window_log(hourly),
        _ => Ok(spec.quota()),
    };
    quota.unwrap_or_else(|error| panic!("{error}"))
}

/// Pages of this process that are in memory.
fn resident_bytes() -> usize {
    const PAGE: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_else(|| panic!("no /proc/self/statm: memory is measured on Linux only")) * PAGE
}

/// The largest store that is tried, as a multiple of the number of keys.
const MOST_TIMES: u64 = 4;
/// A store holds all keys if it evicts at most one live key in this number.
const KEYS_PER_LOST: f64 = 10_000.0;

/// Measures each subject in a separate process, first in a store built for exactly this number of keys. If it evicts
/// too many of them, that is reported, and a larger store is measured as well.
pub(crate) fn run_parts(figures: &mut Figures, effort: Effort) {
    for (at, (name, sizes, _)) in SUBJECTS.iter().enumerate() {
        let sizes = if effort.is_full() || *name == TOKEN_BUCKET { sizes } else { &sizes[..1] };
        for &keys in sizes {
            for times in 1..=MOST_TIMES {
                eprintln!("memory, {name}, {keys} keys, built for {times} times as many");
                figures.run_part(&["memory", &at.to_string(), &keys.to_string(), &times.to_string()]);
                let lost = figures.get(&figure(name, keys, times, "lost")).unwrap_or(0.0);
                if lost <= keys as f64 / KEYS_PER_LOST {
                    break;
                }
            }
        }
    }
}

pub(crate) fn print_table(figures: &Figures) {
    println!("\n### Bytes a key (13-byte strings), resident\n");
    println!("| | keys | checks a key | store built for | bytes a key | evictions of live keys (per key) |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, sizes, checks) in SUBJECTS {
        for (&keys, times) in sizes.iter().flat_map(|keys| (1..=MOST_TIMES).map(move |times| (keys, times))) {
            let Some(lost) = figures.get(&figure(name, keys, times, "lost")) else { continue };
            let bytes = figures.cell(&figure(name, keys, times, "bytes"), 1);
            if name.starts_with("tollgate") {
                let percent = lost / keys as f64 * 100.0;
                println!("| {name} | {keys} | {checks} | {} | {bytes} | {lost} ({percent:.4} %) |", keys * times);
            } else {
                println!("| {name} | {keys} | {checks} | grows | {bytes} | 0 |");
            }
        }
    }
}
