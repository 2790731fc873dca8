//! The cost of observing every decision: the engine with and without observer, log and lists, in one process.
//!
//! The two take short turns, and the median of the ratios of adjacent turns counts; instructions are counted by
//! callgrind. Then a flood of refusals on all processors: the log bytes, the list of top clients, and the memory.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run panics")]

mod flood;
mod instructions;
mod scenarios;

use std::time::Instant;

use scenarios::{SCENARIOS, Scenario};

/// The goal: the rate of observed decisions as a share of the rate without observation.
const LEAST_RATE: f64 = 0.95;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` calls every benchmark with `--list`.
    if arguments.iter().any(|argument| argument == "--list") {
        return;
    }
    if let [part, scenario, seen, decisions] = arguments.as_slice()
        && part == "--part"
    {
        return instructions::run_part(scenario, seen, decisions);
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let (rounds, turn) = if quick { (101, 2_000) } else { (1_001, 5_000) };
    println!("\n| decisions in process, one thread | ns, not observed | ns, observed | rate, ratio |");
    println!("| --- | --- | --- | --- |");
    let mut least: f64 = f64::INFINITY;
    for scenario in &SCENARIOS {
        eprintln!("{}", scenario.name);
        let (unseen_ns, seen_ns, rate) = compare(scenario, rounds, turn);
        least = least.min(rate);
        println!("| {} | {unseen_ns:.0} | {seen_ns:.0} | {rate:.3} |", scenario.name);
    }
    let word = if least >= LEAST_RATE { "met" } else { "MISSED" };
    println!("\nGoal, at least {LEAST_RATE:.2} of the rate everywhere: {word} ({least:.3})");
    instructions::report(if quick { 2_000 } else { 20_000 });
    flood::report(if quick { 3 } else { 60 });
}

/// Returns the median times of a decision without and with an observer, and the median ratio of their rates.
fn compare(scenario: &Scenario, rounds: usize, turn: usize) -> (f64, f64, f64) {
    let mut engines = [scenario.start(false), scenario.start(true)];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for at in [round % 2, 1 - round % 2] {
            let begun = Instant::now();
            engines[at].decide(turn);
            times[at].push(begun.elapsed().as_nanos() as f64 / turn as f64);
        }
    }
    let rates = times[0].iter().zip(&times[1]).map(|(unseen, seen)| unseen / seen).collect();
    let [unseen, seen] = times.map(median);
    (unseen, seen, median(rates))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
