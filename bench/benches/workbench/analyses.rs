//! The speed of whole analyses: reading a log, and deciding or measuring every request.

use std::time::Instant;

use tollgate::policy::parse;
use tollgate_workbench::calibrate::{CalibrationOptions, Calibrator};
use tollgate_workbench::compare::Comparer;
use tollgate_workbench::log::{LogOptions, LogSource, read_logs};
use tollgate_workbench::simulate::Simulation;

use crate::logs::GeneratedLog;
use crate::{GOAL_MLINES, LogRecord, median};

const ONE_RULE: &str = "version: 1\nrules: [ { name: per-ip, key: client_ip, limit: 60/min } ]";

const THREE_RULES: &str = "version: 1
rules:
  - { name: per-ip, key: client_ip, limit: 60/min }
  - { name: writes, when: { method: [POST, PUT] }, key: client_ip, limit: 10/min, replaces: per-ip }
  - { name: all, limit: 100000/s, shadow: true }
";

/// Prints the speed of each analysis of a combined log.
pub(crate) fn print(log: &GeneratedLog, rounds: usize) {
    println!("\n## Analyses of a combined log, million lines a second\n");
    println!("The goal on two cores is {GOAL_MLINES}, for `simulate` and `calibrate`.\n");
    println!("| analysis | all cores |\n| --- | ---: |");
    let row = |name: &str, figure: f64| println!("| {name} | {figure:.2} |");
    row("simulate, one rule", median(rounds, || simulate(log, ONE_RULE)));
    row("simulate, three rules", median(rounds, || simulate(log, THREE_RULES)));
    row("calibrate", median(rounds, || calibrate(log)));
    row("compare", median(rounds, || compare(log)));
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
