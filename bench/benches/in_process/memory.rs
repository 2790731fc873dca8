//! Bytes a key: what a process takes more when it has seen so many of them.

use std::hash::RandomState;
use std::time::Duration;

use tollgate_store::{Quota, Rate};

use crate::contestants::{Contestant, Governor, HomeMade, Terms, Tollgate};
use crate::figures::{Figures, report};
use crate::options::Effort;
use crate::rounds::touch_all;

const MILLION: u64 = 1_000_000;

/// What is measured: name, numbers of keys, checks of each key.
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

/// The name of a figure: `bytes`, live `evictions`, or the store's `capacity` in keys.
pub(crate) fn figure(subject: &str, keys: u64, what: &str) -> String {
    format!("memory/{subject}/{keys}/{what}")
}

/// Measures one subject in this process.
pub(crate) fn run(at: usize, keys: u64, capacity: usize) {
    let (name, _, checks_per_key) = SUBJECTS[at];
    let before = resident_bytes();
    let (evictions, contestant) = build(name, capacity);
    for _ in 0..checks_per_key {
        touch_all(&*contestant, keys, name);
    }
    let bytes = resident_bytes().saturating_sub(before);
    report(&figure(name, keys, "bytes"), bytes as f64 / keys as f64);
    report(&figure(name, keys, "evictions"), evictions() as f64);
    report(&figure(name, keys, "capacity"), capacity as f64);
}

type Subject = (Box<dyn Fn() -> u64>, Box<dyn Contestant<String>>);

fn build(name: &str, capacity: usize) -> Subject {
    let terms = Terms { token: Duration::from_secs(3_600), burst: 10 };
    let contestant: Box<dyn Contestant<String>> = match name.split_once(", ") {
        Some(("tollgate", algorithm)) => {
            let tollgate = Tollgate::under(quota(algorithm, terms), capacity);
            let store = std::sync::Arc::clone(&tollgate.store);
            return (Box::new(move || store.stats().evictions), Box::new(tollgate));
        }
        Some(("governor", _)) => Box::new(Governor::<String, RandomState>::new(terms)),
        Some(("governor+foldhash", _)) => Box::new(Governor::<String, foldhash::fast::RandomState>::new(terms)),
        _ => Box::new(HomeMade::<String>::new(terms)),
    };
    (Box::new(|| 0), contestant)
}

fn quota(algorithm: &str, terms: Terms) -> Quota {
    let hourly = Rate::new(100, Duration::from_secs(3_600)).unwrap_or_else(|error| panic!("{error}"));
    let quota = match algorithm {
        "fixed window" => Quota::fixed_window(hourly),
        "sliding window counter" => Quota::sliding_window_counter(hourly),
        "concurrency, 1 holder" => Quota::concurrency(100, Some(Duration::from_secs(3_600))),
        log if log.starts_with("sliding window log") => Quota::sliding_window_log(hourly),
        _ => Ok(terms.quota()),
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

/// Each subject in a process of its own. A store that had to forget live keys
/// gets a larger one: what it would take to hold them all is what counts.
pub(crate) fn run_parts(figures: &mut Figures, effort: Effort) {
    for (at, (name, sizes, _)) in SUBJECTS.iter().enumerate() {
        let sizes = if effort.is_full() || *name == TOKEN_BUCKET { sizes } else { &sizes[..1] };
        for &keys in sizes {
            eprintln!("memory, {name}, {keys} keys");
            for times in 1..=4 {
                let capacity = times * keys;
                figures.run_part(&["memory", &at.to_string(), &keys.to_string(), &capacity.to_string()]);
                let evictions = figures.get(&figure(name, keys, "evictions")).unwrap_or(0.0);
                if evictions <= keys as f64 / 10_000.0 {
                    break;
                }
            }
        }
    }
}

pub(crate) fn print_table(figures: &Figures) {
    println!("\n### Bytes a key (13-byte strings), resident\n");
    println!("| | keys | checks a key | bytes a key | live keys forgotten | store built for |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (name, sizes, checks) in SUBJECTS {
        for &keys in sizes {
            let cell = |what, decimals| figures.cell(&figure(name, keys, what), decimals);
            let is_ours = name.starts_with("tollgate");
            let (evictions, capacity) =
                if is_ours { (cell("evictions", 0), cell("capacity", 0)) } else { Default::default() };
            println!("| {name} | {keys} | {checks} | {} | {evictions} | {capacity} |", cell("bytes", 1));
        }
    }
}
