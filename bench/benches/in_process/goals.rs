//! The goals of the memory store, and whether they are reached.

use crate::figures::Figures;
use crate::workloads::{GROUPS, THREADS, figure};
use crate::{latency, memory};

/// How much faster than governor, and than governor with foldhash, string keys must be checked.
const SPEED: [(&str, usize, f64, f64); 8] = [
    ("hot", 1, 2.2, 1.4),
    ("1k", 1, 2.2, 1.4),
    ("1M zipf", 1, 3.5, 2.5),
    ("1M uniform", 1, 4.0, 2.2),
    ("10M uniform", 1, 5.0, 3.0),
    ("hot", 2, 2.0, 2.0),
    ("1M zipf", 2, 3.2, 2.5),
    ("10M uniform", 2, 4.2, 3.0),
];

const MANY: u64 = 10_000_000;
const BYTES_PER_KEY: f64 = 32.0;
const EVICTED_PERCENT: f64 = 0.01;
const TAILS_NS: [(&str, f64); 2] = [("p99.9", 2_000.0), ("p99.99", 20_000.0)];
/// Two medians that differ by less than this are the same figure.
const NOISE: f64 = 1.03;

/// One line of the table.
struct Goal {
    what: String,
    goal: String,
    measured: Option<(String, bool)>,
}

/// Prints every goal with the measured value.
pub(crate) fn print_table(figures: &Figures) {
    println!("\n### Goals\n");
    println!("| | goal | measured | |");
    println!("| --- | --- | --- | --- |");
    let goals = speed(figures).into_iter().chain(refusals(figures)).chain(sizes(figures)).chain(tails(figures));
    for Goal { what, goal, measured } in goals {
        let (measured, verdict) = match measured {
            Some((measured, true)) => (measured, "pass"),
            Some((measured, false)) => (measured, "fall short"),
            None => ("–".to_owned(), "not measured"),
        };
        println!("| {what} | {goal} | {measured} | {verdict} |");
    }
}

fn speed(figures: &Figures) -> Vec<Goal> {
    let goal = |&(workload, threads, governor, foldhash): &(&str, usize, f64, f64)| {
        let name = |contestant| figure("string", workload, threads, contestant);
        let ratios = figures
            .ratio(&name("tollgate"), &name("governor"))
            .zip(figures.ratio(&name("tollgate"), &name("governor+foldhash")));
        Goal {
            what: format!("{workload}, {threads} thread{}", if threads > 1 { "s" } else { "" }),
            goal: format!("{governor}x governor, {foldhash}x with foldhash"),
            measured: ratios.map(|(a, b)| (format!("{a:.2}x, {b:.2}x"), a >= governor && b >= foldhash)),
        }
    };
    SPEED.iter().map(goal).collect()
}

/// The worst workload, with one or two threads, decides.
fn refusals(figures: &Figures) -> Option<Goal> {
    let workloads = GROUPS.iter().flat_map(|group| group.workloads);
    let cases = workloads.flat_map(|workload| THREADS.map(|threads| (workload, threads)));
    let times = cases.filter_map(|(workload, threads)| {
        let name = |contestant| figure("string", workload, threads, contestant);
        let times = figures.ratio(&name("tollgate"), &name("tollgate refused"))?;
        Some((format!("{workload}, {threads} thr."), times))
    });
    let worst = times.max_by(|a, b| a.1.total_cmp(&b.1));
    Some(Goal {
        what: "a refused check against an allowed one, at worst".to_owned(),
        goal: format!("at most 1x its time, within {:.0} % of noise", (NOISE - 1.0) * 100.0),
        measured: worst.map(|(case, times)| (format!("{times:.2}x ({case})"), times <= NOISE)),
    })
}

fn sizes(figures: &Figures) -> Vec<Goal> {
    // In a store built for exactly this number of keys.
    let figure = |what| figures.get(&memory::figure(memory::TOKEN_BUCKET, MANY, 1, what));
    let percent = figure("lost").map(|lost| lost / MANY as f64 * 100.0);
    vec![
        Goal {
            what: "bytes a key, 10M live keys at load 0.6".to_owned(),
            goal: format!("at most {BYTES_PER_KEY}"),
            measured: figure("bytes").map(|bytes| (format!("{bytes:.1}"), bytes <= BYTES_PER_KEY)),
        },
        Goal {
            what: "live keys evicted, 10M live keys at load 0.6".to_owned(),
            goal: format!("under {EVICTED_PERCENT} %"),
            measured: percent.map(|percent| (format!("{percent:.4} %"), percent < EVICTED_PERCENT)),
        },
    ]
}

fn tails(figures: &Figures) -> Vec<Goal> {
    let cases = THREADS.into_iter().flat_map(|threads| TAILS_NS.map(|tail| (threads, tail)));
    let goal = |(threads, (percentile, most_ns)): (usize, (&str, f64))| {
        let ns = |subject| figures.get(&latency::figure(subject, threads, percentile));
        let measured = ns("tollgate").zip(ns("empty loop").zip(ns("busy loop")));
        let cell = |(ours, (empty, busy)): (f64, (f64, f64))| {
            let controls = format!("empty loop {:.2}, busy loop {:.2}", empty / 1e3, busy / 1e3);
            (format!("{:.2} us ({controls})", ours / 1e3), ours < most_ns)
        };
        Goal {
            what: format!("{percentile} of a check while 10M keys churn, {threads} thr."),
            goal: format!("under {} us", most_ns / 1e3),
            measured: measured.map(cell),
        }
    };
    cases.map(goal).collect()
}
