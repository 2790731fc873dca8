//! The service beside servers that do as little as can be done, and beside its
//! peers, in one run.
//!
//! Every server is a process of its own with one thread on the last core; the
//! load comes from the first. They take turns, and what counts is the median of
//! the ratios of turns that were close together.

#![allow(clippy::float_arithmetic, reason = "figures are no quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run should say so and stop")]

mod attacks;
mod dialect;
mod grpc;
mod grpc_dialect;
mod hostile;
mod http;
mod http_dialect;
mod keys;
mod load;
mod peers;
mod process;
mod resp;
mod resp_dialect;
mod rounds;
mod seen;
mod served;

use std::time::Duration;

use rounds::Effort;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test` asks every benchmark for its tests.
    if arguments.iter().any(|argument| argument == "--list") {
        return;
    }
    let after = |flag: &str| arguments.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1].as_str());
    if let Some(name) = after("--serve") {
        return served::run(name, after("--entries"));
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let effort = if quick {
        Effort { rounds: 5, turn: Duration::from_millis(200) }
    } else {
        // Many short turns: a machine whose speed changes by the second has the same for turns that are compared.
        Effort { rounds: 201, turn: Duration::from_millis(80) }
    };
    let only = after("--only");
    let wants = |name: &str| only.is_none_or(|only| only == name);
    if wants("resp") {
        resp::measure(effort);
    }
    if wants("http") {
        http::measure(effort);
    }
    if wants("grpc") {
        grpc::measure(effort);
    }
    if wants("keys") {
        keys::measure(effort);
    }
    if wants("seen") {
        seen::measure(effort);
    }
    if wants("hostile") {
        hostile::measure(effort);
    }
}
