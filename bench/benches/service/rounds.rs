//! Contestants take turns. The median of the ratios of adjacent turns counts.

use std::time::Duration;

use crate::load::{CONNECTIONS, Load};

/// The number and the length of turns.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) turn: Duration,
}

/// The result of one turn.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Responses per second.
    pub(crate) per_second: f64,
    /// The server's processor time for each.
    pub(crate) cpu_us: f64,
}

/// The results of all turns, by contestant. The others are compared with the first.
pub(crate) struct Rounds {
    names: Vec<&'static str>,
    samples: Vec<Vec<Sample>>,
}

impl Rounds {
    pub(crate) fn run(what: &str, effort: Effort, contestants: Vec<(&'static str, Load<'_>)>) -> Rounds {
        let (names, mut loads): (Vec<_>, Vec<_>) = contestants.into_iter().unzip();
        for load in &mut loads {
            load.run(effort.turn);
        }
        let mut samples = vec![Vec::new(); loads.len()];
        for round in 0..effort.rounds {
            eprintln!("{what}: round {} of {}", round + 1, effort.rounds);
            for turn_of in 0..loads.len() {
                let at = (round + turn_of) % loads.len();
                samples[at].push(loads[at].run(effort.turn));
            }
        }
        Rounds { names, samples }
    }

    pub(crate) fn print(&self, what: &str) {
        println!("\n| {what}, {CONNECTIONS} connections | req/s | of the first | CPU us a request | of the first |");
        println!("| --- | --- | --- | --- | --- |");
        for (at, name) in self.names.iter().enumerate() {
            println!(
                "| {name} | {:.0} | {:.3} | {:.2} | {:.3} |",
                median(self.samples[at].iter().map(per_second).collect()),
                self.ratio(at, per_second),
                median(self.samples[at].iter().map(cpu_us).collect()),
                self.ratio(at, cpu_us),
            );
        }
    }

    /// Requests a second, as a multiple of the first contestant's.
    pub(crate) fn of_rate(&self, at: usize) -> f64 {
        self.ratio(at, per_second)
    }

    /// Processor time a request, as a multiple of the first contestant's.
    pub(crate) fn of_cpu(&self, at: usize) -> f64 {
        self.ratio(at, cpu_us)
    }

    fn ratio(&self, at: usize, part: fn(&Sample) -> f64) -> f64 {
        let turns = self.samples[at].iter().zip(&self.samples[0]);
        median(turns.map(|(one, other)| part(one) / part(other)).collect())
    }
}

/// Prints whether a goal is reached.
pub(crate) fn print_goal(goal: &str, measured: f64, holds: bool) {
    println!("\n| goal | measured | |\n| --- | --- | --- |");
    println!("| {goal} | {measured:.3}x | {} |", if holds { "pass" } else { "fall short" });
}

fn per_second(sample: &Sample) -> f64 {
    sample.per_second
}

fn cpu_us(sample: &Sample) -> f64 {
    sample.cpu_us
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
