//! Two charges, all or nothing: two limits on one key.

use std::sync::Arc;

use tollgate_store::Limit;

use crate::contestants::{Contestant, Governor, QuotaSpec, Tally, Tollgate};
use crate::figures::{Figures, report};
use crate::keys::{BenchKey, Population, Sequence};
use crate::options::Effort;
use crate::rounds::{Entrant, rounds, touch_all};
use crate::workloads::{REFUSING, THREADS, allowing};

type Foldhash = foldhash::fast::RandomState;

const NAMES: [&str; 5] = [
    "tollgate, one charge",
    "tollgate, both pass",
    "tollgate, second refuses",
    "governor+foldhash, both pass",
    "governor+foldhash, second refuses",
];
const WORKLOADS: [(&str, u64); 3] = [("hot", 1), ("1M zipf", 1_000_000), ("1M uniform", 1_000_000)];

fn figure(workload: &str, threads: usize, name: &str) -> String {
    format!("two charges/{workload}/{threads}/{name}")
}

/// Measures one workload, by its place in the list, in this process.
pub(crate) fn run(at: usize, effort: Effort) {
    let (workload, keys) = WORKLOADS[at];
    let checks = effort.checks(1_000_000);
    let warm_up = checks / 4;
    let mut sequences: Vec<Sequence<String>> =
        (1..=2).map(|seed| Sequence::with_room(checks + warm_up, seed * 0x5eed)).collect();
    let population = if workload.ends_with("zipf") { Population::zipf(keys) } else { Population::uniform(keys) };
    let entrants = entrants(keys);
    for threads in THREADS {
        let sequences = &mut sequences[..threads];
        let medians = rounds(&entrants, &population, sequences, warm_up / threads, checks / threads, effort);
        for (entrant, ns) in entrants.iter().zip(medians) {
            report(&figure(workload, threads, entrant.name), ns);
        }
    }
}

pub(crate) fn run_parts(figures: &mut Figures, effort: Effort) {
    for (at, (workload, _)) in WORKLOADS.iter().enumerate() {
        eprintln!("two charges, {workload}");
        figures.run_part(&["two-charges", &at.to_string(), effort.name()]);
    }
}

fn entrants(keys: u64) -> Vec<Entrant<String>> {
    let pass = allowing(keys);
    let one = Pair::new(pass, pass, keys);
    let one_charge = Tollgate { store: Arc::clone(&one.store), limit: one.first };
    let both_pass = Pair::new(pass, pass, keys);
    let second_refuses = Pair::new(pass, REFUSING, keys);
    let stores = [&one.store, &both_pass.store, &second_refuses.store].map(|store| Some(Arc::clone(store)));
    let contestants: [Box<dyn Contestant<String>>; 5] = [
        Box::new(one_charge),
        Box::new(both_pass),
        Box::new(second_refuses),
        Box::new(TwoGovernors::new(pass, pass, keys)),
        Box::new(TwoGovernors::new(pass, REFUSING, keys)),
    ];
    let stores = stores.into_iter().chain([None, None]);
    let entrants = NAMES.into_iter().zip(contestants).zip(stores);
    let allows = |name: &str| !name.ends_with("refuses");
    entrants.map(|((name, contestant), store)| Entrant { name, allows: allows(name), contestant, store }).collect()
}

/// Two limits in one store.
pub(crate) struct Pair {
    store: Arc<tollgate_store::MemoryStore>,
    first: Limit,
    second: Limit,
}

impl Pair {
    /// Creates the store, with all keys under both limits.
    pub(crate) fn new(first: QuotaSpec, second: QuotaSpec, keys: u64) -> Pair {
        let capacity = (2 * keys as usize).max(1_000);
        let touched = Tollgate::new(first, capacity);
        let second = touched.store.limit("second", second.quota()).unwrap_or_else(|error| panic!("{error}"));
        let beside = Tollgate { store: Arc::clone(&touched.store), limit: second };
        touch_all::<String>(&touched, keys, "the first limit");
        touch_all::<String>(&beside, keys, "the second limit");
        Pair { store: touched.store, first: touched.limit, second: beside.limit }
    }
}

impl<K: BenchKey> Contestant<K> for Pair {
    fn run(&self, keys: &[K], order: &[u32]) -> Tally {
        let mut tally = Tally::default();
        let mut decisions = Vec::with_capacity(2);
        for &at in order {
            let key = &keys[at as usize];
            let charges = [self.store.charge(&self.first, key, 1), self.store.charge(&self.second, key, 1)];
            let mut answers = Tally::default();
            let is_allowed = self.store.check_all(&charges, &mut decisions);
            decisions.iter().for_each(|decision| answers.note(decision));
            tally.allowed += u64::from(is_allowed);
            tally.checksum = tally.checksum.wrapping_add(answers.checksum);
        }
        tally
    }
}

/// Two limiters in a row. Not equivalent: when the second refuses, the first has charged and cannot refund.
pub(crate) struct TwoGovernors(Governor<String, Foldhash>, Governor<String, Foldhash>);

impl TwoGovernors {
    pub(crate) fn new(first: QuotaSpec, second: QuotaSpec, keys: u64) -> TwoGovernors {
        let two = TwoGovernors(Governor::new(first), Governor::new(second));
        touch_all(&two.0, keys, "the first limiter");
        touch_all(&two.1, keys, "the second limiter");
        two
    }
}

impl Contestant<String> for TwoGovernors {
    fn run(&self, keys: &[String], order: &[u32]) -> Tally {
        let mut tally = Tally::default();
        for &at in order {
            let key = &keys[at as usize];
            tally.allowed += u64::from(self.0.is_allowed(key) && self.1.is_allowed(key));
        }
        tally
    }
}

pub(crate) fn print_table(figures: &Figures) {
    println!("\n### Two charges, all or nothing, string keys, ns a decision\n");
    println!("governor has no equivalent: two limiters in a row, which charge the first when the second refuses.\n");
    println!("| workload | threads | {} |", NAMES.join(" | "));
    println!("| --- | --- |{}", " --- |".repeat(NAMES.len()));
    for (workload, _) in WORKLOADS {
        for threads in THREADS {
            let cells = NAMES.map(|name| figures.cell(&figure(workload, threads, name), 1));
            println!("| {workload} | {threads} | {} |", cells.join(" | "));
        }
    }
}
