//! The speed of whole analyses: reading a log, and deciding or measuring every request.

use std::time::Instant;

use tollgate::policy::parse;
use tollgate_workbench::calibrate::{CalibrationOptions, Calibrator};
use tollgate_workbench::compare::Comparer;
use tollgate_workbench::log::{LogOptions, LogSource, read_logs};
use tollgate_workbench::simulate::Simulation;

use crate::logs::{self, GeneratedLog};
use crate::{GOAL_MLINES, LogRecord, goaccess, median_of};

const ONE_RULE: &str = "version: 1\nrules: [ { name: per-ip, key: client_ip, limit: 60/min } ]";

const THREE_RULES: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 60/min }
  - { name: writes, when: { method: [POST, PUT] }, key: client_ip, limit: 10/min, replaces: per-ip }
  - { name: all, limit: 100000/s, shadow: true }
";

/// What a row of the table measures.
type Analysis = (&'static str, fn(&GeneratedLog) -> f64);

const ANALYSES: [Analysis; 5] = [
    ("parsing alone", parse_only),
    ("simulate, one rule", |log| simulate(log, ONE_RULE)),
    ("simulate, three rules", |log| simulate(log, THREE_RULES)),
    ("calibrate", calibrate),
    ("compare", compare),
];

/// Prints the speed of each analysis of a combined log, of parsing alone, and of GoAccess. The analyses take turns.
pub(crate) fn print(log: &GeneratedLog, clients: u64, rounds: usize) {
    println!("\n## Analyses of a combined log of {} lines, {clients} clients\n", log.lines);
    println!("All cores; the goal on two cores is {GOAL_MLINES}, for `simulate` and `calibrate`.\n");
    println!("| analysis | million lines a second | x parsing alone |\n| --- | ---: | ---: |");
    let mut figures = ANALYSES.map(|_| Vec::new());
    for _ in 0..rounds {
        for ((_, measure), figures) in ANALYSES.iter().zip(&mut figures) {
            figures.push(measure(log));
        }
    }
    let medians = figures.map(median_of);
    for ((name, _), figure) in ANALYSES.iter().zip(medians) {
        println!("| {name} | {figure:.2} | {:.2} |", figure / medians[0]);
    }
    match goaccess::mlines(log) {
        Some(figure) => println!("| GoAccess, the first 100,000 lines | {figure:.3} | {:.3} |", figure / medians[0]),
        None => eprintln!("goaccess is not installed"),
    }
}

fn parse_only(log: &GeneratedLog) -> f64 {
    let mut digest = 0_u64;
    let start = Instant::now();
    read(log, &mut |batch| digest = batch.iter().map(logs::digest).fold(digest, u64::wrapping_add));
    assert_eq!(digest, log.digest, "not all records were read");
    mlines(log, start)
}

fn simulate(log: &GeneratedLog, policy: &str) -> f64 {
    let policy = parse(policy, "policy.yaml", None).unwrap().policy;
    let mut simulation = Simulation::new(&policy).unwrap();
    let start = Instant::now();
    read(log, &mut |batch| simulation.requests(batch));
    assert_eq!(simulation.finish().requests, log.lines);
    mlines(log, start)
}

fn calibrate(log: &GeneratedLog) -> f64 {
    let mut calibrator = Calibrator::new(CalibrationOptions::default());
    let start = Instant::now();
    read(log, &mut |batch| calibrator.requests(batch));
    assert_eq!(calibrator.finish().unwrap().requests, log.lines);
    mlines(log, start)
}

fn compare(log: &GeneratedLog) -> f64 {
    let mut comparer = Comparer::new("60/min".parse().unwrap()).unwrap();
    let start = Instant::now();
    read(log, &mut |batch| batch.iter().for_each(|record| assert!(comparer.record(record))));
    assert_eq!(comparer.finish().requests, log.lines);
    mlines(log, start)
}

fn read(log: &GeneratedLog, on_batch: &mut dyn FnMut(&[LogRecord<'_>])) {
    let options = LogOptions { fields: Some(Vec::new()), ..LogOptions::default() };
    read_logs(&[LogSource::File(log.path.clone())], &options, &(), on_batch).unwrap();
}

fn mlines(log: &GeneratedLog, start: Instant) -> f64 {
    log.lines as f64 / start.elapsed().as_secs_f64() / 1e6
}
