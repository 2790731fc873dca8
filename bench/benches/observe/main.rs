//! What it costs that somebody sees every decision: the engine with its
//! observer, log and lists, beside the same engine without, in one process.
//!
//! The two take short turns, and what counts is the median of the ratios of
//! turns that were close together; instructions are counted by callgrind. Then a flood of refusals on all processors: what
//! is written, what is known of it, and what it takes.

#![allow(clippy::float_arithmetic, reason = "figures are no quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run should say so and stop")]

mod flood;
mod instructions;
mod scenarios;

use std::time::Instant;

use scenarios::{SCENARIOS, Scenario};

/// Seen decisions are made at least at this part of the rate of unseen ones.
const LEAST_RATE: f64 = 0.95;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` asks every benchmark for its tests.
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
    println!("\n| decisions in process, one thread | ns, unseen | ns, seen | rate, seen of unseen |");
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

/// The median times of a decision without and with an observer, and the median rate of the latter.
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
