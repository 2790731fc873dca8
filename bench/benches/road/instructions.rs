//! Instructions per decision, counted by callgrind: every scenario runs with n and with 2n decisions, and the
//! difference is that of n decisions.

use std::process::Command;

use crate::layers::{self, Answering};
use crate::limiters::{BY_ADDRESS, BY_HEADER, Contestant, Governor, KEYS, Library, Service, THREE_RULES};

const DECISIONS: usize = 20_000;

/// The baseline of the scenarios with a router: the router without a layer.
const WITHOUT_LAYER: &str = "axum, no layer";

const SCENARIOS: [&str; 16] = [
    "governor, keyed check",
    "Limiter::check, one rule by header",
    "Limiter::check, one rule by address",
    "Limiter::check, three rules",
    "Engine::check, one rule by header, observed",
    "Engine::check, three rules, observed",
    WITHOUT_LAYER,
    "axum, tower_governor around the router, two headers",
    "axum, tollgate around the router, one rule by header, five fields",
    "axum, tollgate around the router, one rule by address, five fields",
    "axum, tollgate around the router, three rules, five fields",
    "axum, Router::layer with a layer that does nothing",
    "axum, Router::layer with tower_governor, two headers",
    "axum, Router::layer with tollgate, one rule by header, five fields",
    "axum, Router::layer with tollgate, one rule by address, five fields",
    "axum, Router::layer with tollgate, three rules, five fields",
];

/// Runs one scenario, under callgrind.
pub(crate) fn run(scenario: &str, decisions: usize) {
    match limiter(scenario) {
        Some(limiter) => {
            // Creates all keys before the counting starts.
            (0..KEYS).for_each(|key| assert!(limiter.is_allowed(key)));
            let allowed = measured(&*limiter, decisions);
            assert!(allowed == decisions, "{scenario}: {allowed} of {decisions} allowed");
        }
        None => {
            let mut router = router(scenario);
            (0..KEYS).for_each(|key| assert!(router.has_all_fields(key), "{scenario}"));
            let answered = measured_router(&mut *router, decisions);
            assert!(answered == decisions, "{scenario}: {answered} of {decisions} answered");
        }
    }
}

fn limiter(scenario: &str) -> Option<Box<dyn Contestant>> {
    Some(match scenario {
        "governor, keyed check" => Box::new(Governor::new()),
        "Limiter::check, one rule by header" => Box::new(Library::new(BY_HEADER)),
        "Limiter::check, one rule by address" => Box::new(Library::new(BY_ADDRESS)),
        "Limiter::check, three rules" => Box::new(Library::new(THREE_RULES)),
        "Engine::check, one rule by header, observed" => Box::new(Service::new(BY_HEADER)),
        "Engine::check, three rules, observed" => Box::new(Service::new(THREE_RULES)),
        _ => return None,
    })
}

fn router(scenario: &str) -> Box<dyn Answering> {
    let policy = match scenario {
        _ if scenario.contains("one rule by header") => BY_HEADER,
        _ if scenario.contains("one rule by address") => BY_ADDRESS,
        _ => THREE_RULES,
    };
    match scenario {
        WITHOUT_LAYER => layers::without_layer(),
        "axum, tower_governor around the router, two headers" => layers::governor(),
        "axum, Router::layer with a layer that does nothing" => layers::idle_by_router(),
        "axum, Router::layer with tower_governor, two headers" => layers::governor_by_router(),
        _ if scenario.starts_with("axum, tollgate around the router") => layers::tollgate(policy),
        _ if scenario.starts_with("axum, Router::layer with tollgate") => layers::tollgate_by_router(policy),
        other => panic!("there is no scenario {other}"),
    }
}

/// The function that callgrind counts, selected by its name.
#[inline(never)]
fn measured(contestant: &dyn Contestant, decisions: usize) -> usize {
    std::hint::black_box((0..decisions).filter(|at| contestant.is_allowed(at % KEYS)).count())
}

#[inline(never)]
fn measured_router(router: &mut dyn Answering, decisions: usize) -> usize {
    std::hint::black_box((0..decisions).filter(|at| router.answer(at % KEYS)).count())
}

pub(crate) fn print_table() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("instructions: skipped, valgrind is missing");
        return;
    }
    println!("\n### Instructions a decision (callgrind), 1,000 keys, every request passes\n");
    println!("| | instructions | above no layer |");
    println!("| --- | --- | --- |");
    let mut without_layer = None;
    for scenario in SCENARIOS {
        eprintln!("instructions: {scenario}");
        let Some(count) = difference(scenario) else { continue };
        if scenario == WITHOUT_LAYER {
            without_layer = Some(count);
        }
        let above = without_layer.map_or_else(String::new, |without| format!("{:.0}", count - without));
        println!("| {scenario} | {count:.0} | {above} |");
    }
}

fn difference(scenario: &str) -> Option<f64> {
    let (once, twice) = (count(scenario, DECISIONS)?, count(scenario, 2 * DECISIONS)?);
    Some((twice - once) / DECISIONS as f64)
}

/// Instructions of the measured function and what it calls.
fn count(scenario: &str, decisions: usize) -> Option<f64> {
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("cannot find this program: {error}"));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*instructions*measured*"]);
    command.arg(program).args(["--part", scenario, &decisions.to_string()]);
    let output = command.output().ok()?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{talk}");
    let line = talk.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok().filter(|&count: &f64| count > 0.0)
}
