//! Instructions per check, counted by callgrind, which other load on the machine does not affect.

use std::process::Command;
use std::time::Duration;

use tollgate_store::{Quota, Rate};

use crate::contestants::{Contestant, Governor, Tally, Tollgate, TollgateBatch};
use crate::figures::{Figures, this_program};
use crate::keys::{BenchKey, Population, Sequence};
use crate::rounds::touch_all;
use crate::two_charges::{Pair, TwoGovernors};
use crate::workloads::{REFUSING, allowing};

type Foldhash = foldhash::fast::RandomState;

const KEYS: u64 = 1_000;
const CHECKS: u64 = 100_000;
const SCENARIOS: [&str; 11] = [
    "tollgate, hit allowed",
    "tollgate, hit allowed, a token takes a fraction of a nanosecond more",
    "tollgate, hit refused",
    "tollgate, hit allowed, batches of 64",
    "tollgate, new key",
    "tollgate, two charges, both pass",
    "tollgate, two charges, second refuses",
    "governor+foldhash, hit allowed",
    "governor+foldhash, hit refused",
    "governor+foldhash, new key",
    "governor+foldhash, two in a row, both pass",
];

fn figure(scenario: &str) -> String {
    format!("instructions/{scenario}")
}

/// Runs one scenario, under callgrind.
pub(crate) fn run(at: usize, checks: u64) {
    let name = SCENARIOS[at];
    let is_new = name.ends_with("new key");
    let mut sequence: Sequence<String> = Sequence::with_room(checks as usize, 1);
    if is_new {
        for (number, key) in (KEYS..).zip(&mut sequence.keys) {
            key.become_key(number);
        }
    } else {
        sequence.draw(&Population::uniform(KEYS));
    }
    let contestant = build(name);
    let tally = measured(&*contestant, &sequence);
    let expected = if name.contains("refuse") { 0 } else { checks };
    assert!(tally.allowed == expected, "{name}: {} of {checks} allowed", tally.allowed);
}

/// The function that callgrind counts, selected by its name.
#[inline(never)]
fn measured(contestant: &dyn Contestant<String>, sequence: &Sequence<String>) -> Tally {
    std::hint::black_box(contestant.run(&sequence.keys, &sequence.order))
}

fn build(name: &str) -> Box<dyn Contestant<String>> {
    let pass = allowing(KEYS);
    let spec = if name.contains("hit refused") { REFUSING } else { pass };
    // There must be space for new keys, so that every check is of the same kind.
    let capacity = 4 * CHECKS as usize;
    match name {
        "tollgate, two charges, both pass" => return Box::new(Pair::new(pass, pass, KEYS)),
        "tollgate, two charges, second refuses" => return Box::new(Pair::new(pass, REFUSING, KEYS)),
        "governor+foldhash, two in a row, both pass" => return Box::new(TwoGovernors::new(pass, pass, KEYS)),
        _ => {}
    }
    if name.starts_with("governor") {
        return touched(Governor::<String, Foldhash>::new(spec));
    }
    let quota = if name.contains("fraction") { fractional() } else { spec.quota() };
    let Tollgate { store, limit } = Tollgate::under(quota, capacity);
    touch_all::<String>(&Tollgate { store: store.clone(), limit: limit.clone() }, KEYS, name);
    if name.ends_with("batches of 64") {
        return Box::new(TollgateBatch { store, limit });
    }
    Box::new(Tollgate { store, limit })
}

/// Three a second: a token refills in 333,333,333 1/3 ns. All other scenarios and workloads have whole nanoseconds,
/// for which the store has a shorter path.
fn fractional() -> Quota {
    let rate = Rate::new(3, Duration::from_secs(1)).and_then(|rate| rate.with_burst(1_000_000_000));
    let quota = rate.map_err(Into::into).and_then(Quota::token_bucket);
    quota.unwrap_or_else(|error| panic!("{error}"))
}

fn touched<C: Contestant<String> + 'static>(contestant: C) -> Box<dyn Contestant<String>> {
    touch_all(&contestant, KEYS, "the fill");
    Box::new(contestant)
}

/// Runs every scenario with n and with 2n checks; the difference is that of n checks. Returns `false` without valgrind.
pub(crate) fn run_parts(figures: &mut Figures) -> bool {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("instructions: skipped, valgrind is missing");
        return false;
    }
    for (at, scenario) in SCENARIOS.iter().enumerate() {
        eprintln!("instructions, {scenario}");
        let counts = count(at, CHECKS).zip(count(at, 2 * CHECKS));
        match counts {
            Some((once, twice)) => figures.set(&figure(scenario), (twice - once) / CHECKS as f64),
            None => eprintln!("instructions, {scenario}: skipped, callgrind gave no count"),
        }
    }
    true
}

/// Instructions of [`measured`] and what it calls.
fn count(at: usize, checks: u64) -> Option<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*instructions*measured*"]);
    command.arg(this_program()).args(["--part", "instructions", &at.to_string(), &checks.to_string()]);
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = talk.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok().filter(|&count: &f64| count > 0.0)
}

pub(crate) fn print_table(figures: &Figures) {
    println!("\n### Instructions a check (callgrind), 1,000 string keys\n");
    println!("| | instructions |");
    println!("| --- | --- |");
    for scenario in SCENARIOS {
        println!("| {scenario} | {} |", figures.cell(&figure(scenario), 0));
    }
}
