//! What it costs to be counted: decisions of the service's engine with all
//! metrics and without any (nor anybody who sees them), and what it takes to write the metrics of a large policy.
//!
//!     scripts/bench --only metrics [--quick]
//!
//! Tables go to stdout, talk to stderr.

#![allow(clippy::float_arithmetic, reason = "figures are no quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

mod decisions;
mod export;
mod instructions;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == instructions::PART) {
        return instructions::run_part(&arguments[at + 1..]);
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    println!("## Being counted\n");
    decisions::print(quick);
    instructions::print();
    export::print(quick);
}

/// The middle one.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
