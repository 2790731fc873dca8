//! The cost of metrics: decisions of the service's engine with all metrics, and without metrics and observer; and the
//! time to render the metrics of a large policy.
//!
//!     scripts/bench --only metrics [--quick]
//!
//! Tables go to stdout, progress to stderr.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]

mod decisions;
mod export;
mod instructions;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == instructions::PART) {
        return instructions::run_part(&arguments[at + 1..]);
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    println!("## Metrics\n");
    decisions::print(quick);
    instructions::print();
    export::print(quick);
}

/// Returns the median.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
