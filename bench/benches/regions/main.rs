//! Regions on real servers: what regions admit with loans and with static shares, and what an epoch costs. Regions in
//! memory: what a decision costs.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run panics")]

#[path = "../redis/effort.rs"]
#[allow(dead_code, reason = "that of the shared store has more members")]
mod effort;
mod epoch_cost;
#[path = "../redis/goals.rs"]
#[allow(dead_code, reason = "that of the shared store has more members")]
mod goals;
mod in_memory;
mod instances;
mod server_load;
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
        eprintln!("redis-server is missing, so regions are not measured");
        eprintln!("(Debian: apt-get install redis-server redis-tools)");
        return;
    }
    let effort = Effort::of(&arguments);
    // One thread, whose processor time is that of all instances.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut goals = Goals::default();
    let only = ["lending", "in-memory", "epochs"].into_iter().find(|name| arguments.iter().any(|given| given == name));
    let runs = |name: &str| only.is_none_or(|only| only == name);
    runtime.block_on(async {
        if runs("lending") {
            throughput::measure(effort, &mut goals).await;
        }
        if runs("in-memory") {
            in_memory::measure(effort).await;
        }
        if runs("epochs") {
            epoch_cost::measure(effort).await;
        }
    });
    goals.print();
}
