//! The road of a decision, as its users call it: `Limiter::check`, the engine with its observer, and the layer on axum,
//! beside governor and tower_governor.
//!
//! Time is the median of interleaved rounds. Instructions are counted by callgrind, and no neighbour on the machine can
//! move them.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::float_arithmetic)]

mod instructions;
mod layers;
mod limiters;
mod time;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--part", scenario, count] = arguments[..] {
        let count = count.parse().unwrap_or_else(|error| panic!("{count}: {error}"));
        instructions::run(scenario, count);
        return ExitCode::SUCCESS;
    }
    let is_quick = arguments.contains(&"--quick");
    let (only_time, only_instructions) = (arguments.contains(&"--time"), arguments.contains(&"--instructions"));
    if !only_instructions {
        time::print_tables(is_quick);
    }
    if !only_time {
        instructions::print_table();
    }
    ExitCode::SUCCESS
}
