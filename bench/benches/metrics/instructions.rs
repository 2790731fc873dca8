//! Instructions per decision, counted by callgrind, which other load on the machine does not affect.

use std::process::Command;

use crate::decisions::{Metrics, decide, engine};

/// The argument with which this program only decides.
pub(crate) const PART: &str = "--part";
const DECISIONS: u32 = 20_000;

pub(crate) fn run_part(arguments: &[String]) {
    let metrics = if arguments[0] == "on" { Metrics::On } else { Metrics::Off };
    let decisions = arguments[1].parse().unwrap_or_else(|error| panic!("{error}"));
    let engine = engine(metrics);
    // Creates all keys before the counting starts.
    decide(&engine, DECISIONS);
    observed_decisions(&engine, decisions);
}

/// The function that callgrind counts, selected by its name.
#[inline(never)]
fn observed_decisions(engine: &tollgate_server::Engine, decisions: u32) {
    decide(engine, decisions);
}

pub(crate) fn print() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("\nInstructions were not counted: valgrind is missing.");
        return;
    }
    println!("\n| instructions a decision | metrics off | metrics on | more |");
    println!("| --- | ---: | ---: | ---: |");
    eprintln!("instructions");
    match a_decision("off").zip(a_decision("on")) {
        Some((off, on)) => println!("| callgrind | {off:.0} | {on:.0} | {:.0} |", on - off),
        None => println!("| callgrind gave no count | | | |"),
    }
}

/// Returns the difference between runs of n and of 2n decisions, divided by n.
fn a_decision(metrics: &str) -> Option<f64> {
    let (once, twice) = count(metrics, DECISIONS).zip(count(metrics, 2 * DECISIONS))?;
    Some((twice - once) / f64::from(DECISIONS))
}

fn count(metrics: &str, decisions: u32) -> Option<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*observed_decisions*"]);
    command.arg(std::env::current_exe().ok()?).args([PART, metrics, &decisions.to_string()]);
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = talk.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok().filter(|&count: &f64| count > 0.0)
}
