//! The RESP front end beside a server that parses the same commands and has one
//! answer for all of them, and beside Redis, in one run.
//!
//! The servers run on the last core, each on a thread of its own; the load comes
//! from the first. They take turns, and what counts is the median of the ratios
//! of turns that were close together.

#![allow(clippy::float_arithmetic, reason = "figures are no quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run should say so and stop")]

mod load;
mod redis;
mod servers;

use std::time::Duration;

use load::{Load, Sample};
use servers::Running;

/// How many commands are under way on a connection.
const PIPELINES: [usize; 2] = [1, 16];

/// One at a time, a command may take so much of the floor's processor time.
const MOST_CPU: f64 = 1.15;

/// Pipelined, so much of the floor's commands a second must be reached.
const LEAST_RATE: f64 = 0.85;

/// A name, a server, and what it is asked.
struct Contestant {
    name: &'static str,
    server: Running,
    command: fn(usize) -> Vec<u8>,
    /// What each answer has once.
    mark: u8,
}

const FLOOR: usize = 0;
const TOLLGATE: usize = 1;

fn main() {
    // `cargo test` asks every benchmark for its tests.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, turn) = if quick { (5, Duration::from_millis(200)) } else { (31, Duration::from_millis(500)) };
    // Servers first: a thread that is pinned sees one core only.
    let redis = redis::start();
    let mut contestants = vec![
        Contestant { name: "floor: parses, one answer", server: servers::floor(), command: throttle, mark: b'*' },
        Contestant { name: "tollgate, one key", server: servers::tollgate(), command: throttle_one_key, mark: b'*' },
        Contestant { name: "tollgate, a key for each", server: servers::tollgate(), command: throttle, mark: b'*' },
    ];
    if let Some(redis) = &redis {
        contestants.push(Contestant { name: "redis PING", server: redis.running(), command: ping, mark: b'+' });
        contestants.push(Contestant { name: "redis INCR", server: redis.running(), command: increment, mark: b':' });
    }
    load::pin_to_core(0);
    for pipeline in PIPELINES {
        let mut loads: Vec<Load> = contestants.iter().map(|contestant| Load::connect(contestant, pipeline)).collect();
        for load in &mut loads {
            load.run(turn);
        }
        let mut samples = vec![Vec::new(); loads.len()];
        for round in 0..rounds {
            eprintln!("{pipeline} at a time: round {} of {rounds}", round + 1);
            for turn_of in 0..loads.len() {
                let at = (round + turn_of) % loads.len();
                samples[at].push(loads[at].run(turn));
            }
        }
        report(&contestants, pipeline, &samples);
    }
}

fn throttle(key: usize) -> Vec<u8> {
    command(&["CL.THROTTLE", &format!("user:{key:06}"), "15", "1000000", "1"])
}

/// As redis-benchmark asks, by whose figures the goals were set.
fn throttle_one_key(_: usize) -> Vec<u8> {
    throttle(0)
}

fn ping(_: usize) -> Vec<u8> {
    command(&["PING"])
}

fn increment(key: usize) -> Vec<u8> {
    command(&["INCR", &format!("user:{key:06}")])
}

fn command(arguments: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len());
    for argument in arguments {
        bytes += &format!("${}\r\n{argument}\r\n", argument.len());
    }
    bytes.into_bytes()
}

fn report(contestants: &[Contestant], pipeline: usize, samples: &[Vec<Sample>]) {
    println!(
        "\n| RESP over loopback, {} connections, {pipeline} at a time | req/s | of the floor | CPU us a request | of the floor |",
        load::CONNECTIONS
    );
    println!("| --- | --- | --- | --- | --- |");
    let rate = |sample: &Sample| sample.per_second;
    let cpu = |sample: &Sample| sample.cpu_us;
    for (at, contestant) in contestants.iter().enumerate() {
        println!(
            "| {} | {:.0} | {:.3} | {:.2} | {:.3} |",
            contestant.name,
            median(samples[at].iter().map(rate).collect()),
            ratio(samples, at, FLOOR, rate),
            median(samples[at].iter().map(cpu).collect()),
            ratio(samples, at, FLOOR, cpu),
        );
    }
    println!("\n| goal | measured | |\n| --- | --- | --- |");
    let passes = |holds: bool| if holds { "pass" } else { "fall short" };
    if pipeline == 1 {
        let of_floor = ratio(samples, TOLLGATE, FLOOR, cpu);
        println!("| at most {MOST_CPU}x the floor's CPU | {of_floor:.3}x | {} |", passes(of_floor <= MOST_CPU));
    } else {
        let of_floor = ratio(samples, TOLLGATE, FLOOR, rate);
        println!("| at least {LEAST_RATE}x the floor's req/s | {of_floor:.3}x | {} |", passes(of_floor >= LEAST_RATE));
    }
}

/// One server's figure as a multiple of another's: the median over turns that were close together.
fn ratio(samples: &[Vec<Sample>], one: usize, other: usize, part: fn(&Sample) -> f64) -> f64 {
    median(samples[one].iter().zip(&samples[other]).map(|(one, other)| part(one) / part(other)).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
