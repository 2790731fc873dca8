//! An axum server with tollgate's layer, compared with the same server without a layer and with tower_governor's, in
//! one process and one run.
//!
//! Every server has a separate thread on the last core; the load generator runs on the first. They take turns, and
//! the ratio of medians counts.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run panics")]

mod load;
mod servers;

use std::time::Duration;

use load::{Load, Sample};

/// The names of the servers, and the servers.
const SERVERS: [(&str, servers::Start); 7] = [
    ("no layer", servers::plain),
    ("tollgate, 1 rule", servers::tollgate_one_rule),
    ("tollgate, 3 rules", servers::tollgate_three_rules),
    ("tollgate, 3 rules, no fields", servers::tollgate_without_fields),
    ("tower_governor, 1 rule", servers::governor),
    ("tower_governor, 1 rule, with fields", servers::governor_with_fields),
    ("a layer that does nothing", servers::nothing),
];

/// The goal: the share of the requests per second that three rules may cost.
const MOST_OVERHEAD_PERCENT: f64 = 5.0;

fn main() {
    // `cargo test` calls every benchmark with `--list`.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, turn) = if quick { (5, Duration::from_millis(200)) } else { (41, Duration::from_millis(500)) };
    // Servers start first: a pinned thread sees only one core.
    let running: Vec<_> = SERVERS.iter().map(|(_, start)| servers::run(*start)).collect();
    load::pin_to_core(0);
    let mut loads: Vec<Load> = running.into_iter().map(Load::connect).collect();
    for load in &mut loads {
        load.run(turn);
    }
    let mut samples = vec![Vec::new(); SERVERS.len()];
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for turn_of in 0..SERVERS.len() {
            let at = (round + turn_of) % SERVERS.len();
            samples[at].push(loads[at].run(turn));
        }
    }
    report(&samples);
}

fn report(samples: &[Vec<Sample>]) {
    println!(
        "\n| axum over loopback, {} connections | req/s | of no layer | CPU ns a request | more |",
        load::CONNECTIONS
    );
    println!("| --- | --- | --- | --- | --- |");
    let median_of = |at: usize, part: fn(&Sample) -> f64| median(samples[at].iter().map(part).collect());
    for (at, (name, _)) in SERVERS.iter().enumerate() {
        let cpu_ns = median_of(at, |sample| sample.cpu_ns);
        println!(
            "| {name} | {:.0} | {:.3} | {cpu_ns:.0} | {:+.0} |",
            median_of(at, |sample| sample.per_second),
            ahead(samples, at, 0),
            cpu_ns - median_of(0, |sample| sample.cpu_ns),
        );
    }
    println!("\n| goal | measured | |\n| --- | --- | --- |");
    let passes = |holds: bool| if holds { "pass" } else { "fall short" };
    let overhead = (1.0 - ahead(samples, 2, 0)) * 100.0;
    println!(
        "| 3 rules take at most {MOST_OVERHEAD_PERCENT} % | {overhead:.1} % | {} |",
        passes(overhead <= MOST_OVERHEAD_PERCENT)
    );
    for (peer, name) in [(4, "tower_governor's"), (5, "tower_governor's with fields")] {
        let ahead = ahead(samples, 1, peer);
        println!("| 1 rule is faster than {name} | {ahead:.3}x | {} |", passes(ahead >= 1.0));
    }
}

/// Returns the ratio of the requests per second of two servers: the median over adjacent turns.
fn ahead(samples: &[Vec<Sample>], one: usize, other: usize) -> f64 {
    median(samples[one].iter().zip(&samples[other]).map(|(one, other)| one.per_second / other.per_second).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
