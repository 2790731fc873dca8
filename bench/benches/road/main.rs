//! The path of a decision: `Limiter::check`, the engine with its observer, and the layer on axum, compared with
//! governor and tower_governor.
//!
//! Time is the median of interleaved rounds. Instructions are counted by callgrind, which other load on the machine does
//! not affect.

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
