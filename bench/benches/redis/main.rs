//! The shared store on a real server, beside the server's own benchmark
//! program, beside a floor of our own and beside the usual layouts of keys.
//!
//! The server has the last core, and whoever asks it has the first.
//! Contestants take turns, and what counts is the ratio within a round.

#![allow(clippy::float_arithmetic, reason = "figures are no quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run should say so and stop")]

mod callers;
mod effort;
mod goals;
mod known_refusals;
mod latency;
mod layouts;
mod memory;
mod pinned;
mod pipeline;
mod recorder;
mod redis_benchmark;
mod throughput;

use effort::Effort;
use goals::Goals;
use tollgate_testbed::Binary;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test` asks every benchmark for its tests.
    if arguments.iter().any(|argument| argument == "--list") {
        return;
    }
    if Binary::Redis.program().is_none() {
        eprintln!("redis-server is not on this machine, so the shared store is not measured");
        eprintln!("(Debian: apt-get install redis-server redis-tools)");
        return;
    }
    let effort = Effort::of(&arguments);
    // All tasks on one thread: the server has the other core to itself.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut goals = Goals::default();
    runtime.block_on(async {
        throughput::measure(effort, &mut goals).await;
        known_refusals::measure(effort, &mut goals).await;
        latency::measure(effort, &mut goals).await;
        memory::measure(effort, &mut goals).await;
    });
    goals.print();
}
