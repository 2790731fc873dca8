//! One key, a thousand, a million, ten million: single checks and batches,
//! allowed and refused, from one thread and from two.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use tollgate_store::MemoryStore;

use crate::contestants::{Contestant, CustomBucket, Governor, QuotaSpec, Tollgate, TollgateBatch};
use crate::figures::{Figures, report};
use crate::keys::{BenchKey, Population, Sequence};
use crate::options::Effort;
use crate::rounds::{Entrant, rounds, touch_all};

/// A number of keys, and the workloads that use them.
pub(crate) struct Group {
    /// Its name for `--only`.
    pub(crate) name: &'static str,
    keys: u64,
    /// The number of keys that tollgate's store is built for.
    capacity: usize,
    /// The resulting load of the store.
    load: f64,
    /// The names of the workloads.
    pub(crate) workloads: &'static [&'static str],
    /// The timed checks per round in the full run, shared among the threads.
    checks: usize,
    /// The untimed checks before those, as a share of them.
    warm_up: f64,
}

/// A store for `n` keys has `n / 0.6` slots.
pub(crate) static GROUPS: [Group; 4] = [
    Group { name: "hot", keys: 1, capacity: 1_000, load: 0.0006, workloads: &["hot"], checks: 2_000_000, warm_up: 0.1 },
    Group { name: "1k", keys: 1_000, capacity: 6_000, load: 0.1, workloads: &["1k"], checks: 2_000_000, warm_up: 0.1 },
    Group {
        name: "1m",
        keys: 1_000_000,
        capacity: 1_000_000,
        load: 0.6,
        workloads: &["1M zipf", "1M uniform"],
        checks: 1_000_000,
        warm_up: 0.5,
    },
    Group {
        name: "10m",
        keys: 10_000_000,
        capacity: 10_000_000,
        load: 0.6,
        workloads: &["10M uniform"],
        checks: 1_000_000,
        warm_up: 0.1,
    },
];

pub(crate) const THREADS: [usize; 2] = [1, 2];

/// The contestants, in the order of the tables.
pub(crate) const ALLOWED: [&str; 5] = ["tollgate", "tollgate batch", "governor", "governor+foldhash", "DashMap"];
pub(crate) const REFUSED: [&str; 5] =
    ["tollgate refused", "tollgate batch refused", "governor refused", "governor+foldhash refused", "DashMap refused"];

/// The name of a figure: nanoseconds a check.
pub(crate) fn figure(kind: &str, workload: &str, threads: usize, contestant: &str) -> String {
    format!("{kind}/{workload}/{threads}/{contestant}")
}

/// Measures one group with keys of one kind, in this process.
pub(crate) fn run<K: BenchKey>(kind: &str, group: &Group, effort: Effort) {
    let checks = effort.checks(group.checks);
    let warm_up = (checks as f64 * group.warm_up) as usize;
    let mut sequences: Vec<Sequence<K>> =
        (1..=2).map(|seed| Sequence::with_room(checks + warm_up, seed * 0x5eed)).collect();
    let entrants = entrants::<K>(group, effort);
    for workload in group.workloads {
        let is_zipf = workload.ends_with("zipf");
        let population = if is_zipf { Population::zipf(group.keys) } else { Population::uniform(group.keys) };
        assert_distinct(&mut sequences[0], &population, is_zipf);
        for threads in THREADS {
            let sequences = &mut sequences[..threads];
            let medians = rounds(&entrants, &population, sequences, warm_up / threads, checks / threads, effort);
            for (entrant, ns) in entrants.iter().zip(medians) {
                report(&figure(kind, workload, threads, entrant.name), ns);
            }
        }
    }
    for entrant in &entrants {
        entrant.assert_live(group.keys);
    }
}

fn entrants<K: BenchKey>(group: &Group, effort: Effort) -> Vec<Entrant<K>> {
    let mut entrants: Vec<Entrant<K>> = Vec::new();
    for allows in [true, false] {
        let [name, batch_name, governor, foldhash, home_made] = if allows { ALLOWED } else { REFUSED };
        let spec = if allows { allowing(group.keys) } else { REFUSING };
        let mut enter = |name, contestant: Box<dyn Contestant<K>>, store: Option<Arc<MemoryStore>>| {
            entrants.push(Entrant { name, allows, contestant, store });
        };
        let tollgate = Tollgate::new(spec, group.capacity);
        touch_all::<K>(&tollgate, group.keys, name);
        let store = Arc::clone(&tollgate.store);
        let batch = TollgateBatch { store: Arc::clone(&store), limit: tollgate.limit.clone() };
        enter(name, Box::new(tollgate), Some(Arc::clone(&store)));
        enter(batch_name, Box::new(batch), Some(store));
        if allows || effort.is_full() {
            let peers: [(&'static str, Box<dyn Contestant<K>>); 3] = [
                (governor, Box::new(Governor::<K, RandomState>::new(spec))),
                (foldhash, Box::new(Governor::<K, foldhash::fast::RandomState>::new(spec))),
                (home_made, Box::new(CustomBucket::new(spec))),
            ];
            for (name, peer) in peers {
                touch_all(&*peer, group.keys, name);
                enter(name, peer, None);
            }
        }
    }
    entrants.iter().for_each(|entrant| entrant.assert_live(group.keys));
    let evictions: Vec<u64> =
        entrants.iter().filter_map(|entrant| Some(entrant.store.as_ref()?.stats().evictions)).step_by(2).collect();
    eprintln!("  {} keys, tollgate at load {}, live keys evicted {evictions:?}", group.keys, group.load);
    entrants
}

/// A quota under which every check passes and every key stays live to the end.
///
/// A token refills so slowly that one check keeps a key live throughout, and the burst, which must refill within 36
/// years, is larger than the number of checks.
pub(crate) fn allowing(keys: u64) -> QuotaSpec {
    match keys {
        ..=1_000 => QuotaSpec { token: Duration::from_secs(1), burst: 1_000_000_000 },
        // The most popular of a million gets some three million checks.
        1_001..=1_000_000 => QuotaSpec { token: Duration::from_secs(300), burst: 3_500_000 },
        // Creating ten million keys takes long on a busy machine.
        _ => QuotaSpec { token: Duration::from_secs(3_600), burst: 300_000 },
    }
}

/// A quota under which only the first check of a key passes.
pub(crate) const REFUSING: QuotaSpec = QuotaSpec { token: Duration::from_secs(3_600), burst: 1 };

/// Asserts that a sequence has as many different keys as its name states.
fn assert_distinct<K: BenchKey>(sequence: &mut Sequence<K>, population: &Population, is_zipf: bool) {
    sequence.draw(population);
    let (drawn, keys) = (sequence.order.len() as f64, population.keys as f64);
    let distinct = sequence.distinct() as f64;
    // Of k keys, n uniform draws use k (1 - e^(-n/k)); zipf draws use fewer, but still a large share.
    let expected = keys * (1.0 - (-drawn / keys).exp());
    let least = if is_zipf { 0.2 * expected } else { 0.98 * expected };
    assert!(distinct >= least.floor(), "{distinct} different keys drawn, expected {expected:.0}");
}

/// The tables of one kind of key.
pub(crate) fn print_tables(figures: &Figures, kind: &str) {
    for (title, names) in [("allowed", ALLOWED), ("refused", REFUSED)] {
        println!("\n### {kind} keys, every check {title}, ns a check\n");
        println!("| workload | threads | load | {} | × governor | × governor+foldhash |", ALLOWED.join(" | "));
        println!("| --- | --- | --- |{}", " --- |".repeat(ALLOWED.len() + 2));
        for group in &GROUPS {
            for workload in group.workloads {
                for threads in THREADS {
                    print_row(figures, kind, workload, threads, group.load, &names);
                }
            }
        }
    }
}

fn print_row(figures: &Figures, kind: &str, workload: &str, threads: usize, load: f64, names: &[&str; 5]) {
    let name = |contestant| figure(kind, workload, threads, contestant);
    if figures.get(&name(names[0])).is_none() {
        return;
    }
    let cells: Vec<String> = names.iter().map(|contestant| figures.cell(&name(contestant), 1)).collect();
    let ratio = |peer: usize| {
        let ratio = figures.ratio(&name(names[0]), &name(names[peer]));
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
    };
    println!("| {workload} | {threads} | {load} | {} | {} | {} |", cells.join(" | "), ratio(2), ratio(3));
}
