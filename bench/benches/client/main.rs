//! Fifty clients of one limited server, with the client layer, with plain retries and with a fixed backoff; and the
//! cost of the layer for a request that does not wait.
//!
//! The server is axum with tollgate's layer, on a thread of its own; the clients are reqwest over loopback. All
//! strategies run in turn against a new server.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run panics")]

mod crowd;
mod overhead;
mod server;
mod strategies;

use std::time::Duration;

use crowd::{Case, Measured};
use strategies::Strategy;
use tollgate::AlgorithmKind;

const STRATEGIES: [Strategy; 3] = [Strategy::ClientLayer, Strategy::FixedBackoff, Strategy::PlainRetry];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test` calls every benchmark with `--list`.
    if arguments.iter().any(|argument| argument == "--list") {
        return;
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    overhead::measure(if quick { 5 } else { 121 });
    if arguments.iter().any(|argument| argument == "--overhead") {
        return;
    }
    let seconds = |full: u64| Duration::from_secs(if quick { full.div_ceil(5) } else { full });
    let bucket = AlgorithmKind::TokenBucket;
    let cases = [
        Case {
            name: "one key, 500/s",
            limit: "500/s",
            algorithm: bucket,
            own_keys: false,
            warm_up: seconds(3),
            time: seconds(12),
        },
        Case {
            name: "a key each, 10/s",
            limit: "10/s",
            algorithm: bucket,
            own_keys: true,
            warm_up: seconds(3),
            time: seconds(12),
        },
        Case {
            name: "one key, 5000 per 10 s in a fixed window",
            limit: "5000 per 10s",
            algorithm: AlgorithmKind::FixedWindow,
            own_keys: false,
            warm_up: seconds(10),
            time: seconds(20),
        },
    ];
    for case in cases {
        let measured: Vec<_> = STRATEGIES.iter().map(|strategy| (*strategy, crowd::run(&case, *strategy))).collect();
        report(&case, &measured);
    }
}

fn report(case: &Case, measured: &[(Strategy, Measured)]) {
    println!(
        "\n| {} clients, {} | used | refused | requests/s | peak in 100 ms, of the mean |",
        crowd::CLIENTS,
        case.name
    );
    println!("| --- | --- | --- | --- | --- |");
    for (strategy, measured) in measured {
        println!(
            "| {} | {:.1} % | {:.3} % | {:.0} | {:.1}x |",
            strategy.name(),
            measured.used_percent(),
            measured.refused_percent(),
            measured.per_second(),
            measured.peak(),
        );
    }
    if matches!(case.algorithm, AlgorithmKind::FixedWindow) {
        println!("\n| arrivals in each second of the window, in per cent | |\n| --- | --- |");
    }
    for (strategy, measured) in measured.iter().filter(|_| matches!(case.algorithm, AlgorithmKind::FixedWindow)) {
        let seconds = measured.by_second().map(|percent| format!("{percent:.1}")).join(", ");
        println!("| {} | {seconds} |", strategy.name());
    }
    let layer = &measured[0].1;
    println!("\n| goal | measured | |\n| --- | --- | --- |");
    let passes = |holds: bool| if holds { "pass" } else { "fall short" };
    println!("| at least 95 % used | {:.1} % | {} |", layer.used_percent(), passes(layer.used_percent() >= 95.0));
    println!("| under 0.1 % refused | {:.3} % | {} |", layer.refused_percent(), passes(layer.refused_percent() < 0.1));
}
