//! Instructions per decision, counted by callgrind, which other load on the machine does not affect.

use std::process::Command;

use crate::scenarios::{SCENARIOS, Workload};

pub(crate) fn run_part(scenario: &str, seen: &str, decisions: &str) {
    let mut workload = SCENARIOS[scenario.parse::<usize>().unwrap()].start(seen == "seen");
    measured(&mut workload, decisions.parse().unwrap());
}

/// The function that callgrind counts, selected by its name.
#[inline(never)]
fn measured(workload: &mut Workload, decisions: usize) {
    workload.decide(decisions);
}

pub(crate) fn report(decisions: usize) {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return eprintln!("instructions: skipped, valgrind is missing");
    }
    println!("\n| instructions a decision (callgrind) | not observed | observed | more |");
    println!("| --- | --- | --- | --- |");
    for (at, scenario) in SCENARIOS.iter().enumerate() {
        eprintln!("instructions, {}", scenario.name);
        // The difference between runs of n and of 2n decisions is that of n decisions.
        let of = |seen| Some((count(at, seen, 2 * decisions)? - count(at, seen, decisions)?) / decisions as f64);
        let (Some(unseen), Some(seen)) = (of("unseen"), of("seen")) else { continue };
        println!("| {} | {unseen:.0} | {seen:.0} | {:+.1} % |", scenario.name, (seen / unseen - 1.0) * 100.0);
    }
}

fn count(scenario: usize, seen: &str, decisions: usize) -> Option<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*instructions*measured*"]);
    command.arg(std::env::current_exe().ok()?);
    command.args(["--part", &scenario.to_string(), seen, &decisions.to_string()]);
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = talk.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok().filter(|&count: &f64| count > 0.0)
}
