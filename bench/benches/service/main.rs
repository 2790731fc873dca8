//! The service compared with servers that do as little as possible, and with other programs, in one run.
//!
//! Every server is a separate process with one thread on the last core; the load generator runs on the first. They
//! take turns, and the median of the ratios of adjacent turns counts.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run panics")]

mod attacks;
mod dialect;
mod grpc;
mod grpc_dialect;
mod hostile;
mod http;
mod http_dialect;
mod keys;
mod load;
mod page;
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
    // `cargo test` calls every benchmark with `--list`.
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
        // Many short turns, so that changes of the machine's speed affect compared turns equally.
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
    if wants("page") {
        page::measure(quick);
    }
    if wants("hostile") {
        hostile::measure(effort);
    }
}
