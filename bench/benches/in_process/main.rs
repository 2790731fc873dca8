//! tollgate's memory store compared with other limiters, in one process and one run.
//!
//! `BENCHMARKS.md` describes the method; `scripts/bench` runs it.
//! Tables go to stdout, progress to stderr.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]

mod contestants;
mod figures;
mod goals;
mod instructions;
mod keys;
mod latency;
mod machine;
mod measure;
mod memory;
mod options;
mod rounds;
mod two_charges;
mod workloads;

use std::process::ExitCode;
use std::time::Instant;

use figures::Figures;
use options::{Effort, Options};
use workloads::{GROUPS, Group};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == "--part").is_some() {
        run_part(&arguments.collect::<Vec<_>>());
        return ExitCode::SUCCESS;
    }
    match Options::parse(arguments) {
        Ok(options) => run(&options),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Runs the selected parts, then prints their tables, the goals last.
fn run(options: &Options) {
    let start = Instant::now();
    let effort = options.effort;
    println!("## tollgate in process, a {} run\n", effort.name());
    machine::print_facts();
    let mut figures = Figures::default();
    for group in GROUPS.iter().filter(|group| options.wants(group.name)) {
        for kind in ["string", "u64"].into_iter().filter(|kind| effort.is_full() || *kind == "string") {
            eprintln!("{} {kind} keys", group.name);
            figures.run_part(&["group", kind, group.name, effort.name()]);
        }
    }
    for kind in ["string", "u64"].into_iter().filter(|kind| figures.has(kind)) {
        workloads::print_tables(&figures, kind);
    }
    if options.wants("two-charges") {
        two_charges::run_parts(&mut figures, effort);
        two_charges::print_table(&figures);
    }
    if options.wants("memory") {
        memory::run_parts(&mut figures, effort);
        memory::print_table(&figures);
    }
    if options.wants("latency") {
        latency::run_parts(&mut figures, effort);
        latency::print_table(&figures);
    }
    if options.wants("instructions") {
        if instructions::run_parts(&mut figures) {
            instructions::print_table(&figures);
        } else {
            println!("\nInstructions were not counted: valgrind is missing.");
        }
    }
    goals::print_table(&figures);
    eprintln!("took {} s", start.elapsed().as_secs());
}

/// A part of a run in this process, started by [`Figures::run_part`].
fn run_part(arguments: &[String]) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("`{text}` is no number"));
    match *arguments.as_slice() {
        ["group", "string", name, effort] => workloads::run::<String>("string", group(name), Effort::named(effort)),
        ["group", "u64", name, effort] => workloads::run::<u64>("u64", group(name), Effort::named(effort)),
        ["two-charges", at, effort] => two_charges::run(number(at) as usize, Effort::named(effort)),
        ["memory", at, keys, times] => memory::run(number(at) as usize, number(keys), number(times)),
        ["latency", subject, threads, effort] => {
            latency::run(subject, number(threads) as usize, Effort::named(effort));
        }
        ["instructions", at, checks] => instructions::run(number(at) as usize, number(checks)),
        _ => panic!("no such part: {arguments:?}"),
    }
}

fn group(name: &str) -> &'static Group {
    let found = GROUPS.iter().position(|group| group.name == name);
    found.map_or_else(|| panic!("no such group: {name}"), |at| &GROUPS[at])
}
