//! The shared store on a real server, compared with redis-benchmark, with a minimal client, and with the data layouts
//! of other limiters.
//!
//! The server runs on the last core, the clients on the first. Contestants take turns, and the ratio within a round
//! counts.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run panics")]

mod callers;
mod effort;
mod goals;
mod known_refusals;
mod latency;
mod layouts;
mod leases;
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
    // `cargo test` calls every benchmark with `--list`.
    if arguments.iter().any(|argument| argument == "--list") {
        return;
    }
    if Binary::Redis.program().is_none() {
        eprintln!("redis-server is missing, so the shared store is not measured");
        eprintln!("(Debian: apt-get install redis-server redis-tools)");
        return;
    }
    let effort = Effort::of(&arguments);
    // All tasks on one thread: the server has the other core to itself.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut goals = Goals::default();
    let only_leases = arguments.iter().any(|argument| argument == "leases");
    runtime.block_on(async {
        leases::measure(effort, &mut goals).await;
        if only_leases {
            return;
        }
        throughput::measure(effort, &mut goals).await;
        known_refusals::measure(effort, &mut goals).await;
        latency::measure(effort, &mut goals).await;
        memory::measure(effort, &mut goals).await;
    });
    goals.print();
}
