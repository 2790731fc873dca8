use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_testbed::{RedisServer, Reply};

use super::helpers::{LONG_TIMEOUT, call, options};
use crate::wire::client::RedisClient;

const SOURCE: &str = "return 1";
const CALLERS: usize = 64;
const SPAN: Duration = Duration::from_secs(3);

/// Measures the calls of a trivial script per second, and prints the figures of `redis-benchmark` beside them. Run it
/// in a release build, on a quiet machine:
///
///     cargo test --release -p tollgate-redis -- --ignored --nocapture calls_per_second
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a benchmark"]
async fn calls_per_second() {
    let server = RedisServer::start(&[]).unwrap();
    for round in 1..=3 {
        let peer = redis_benchmark(&server);
        println!(
            "round {round}: redis-benchmark -c 1 -P 64: {:.0}, -c 4 -P 16: {:.0}, -c 50 -P 16: {:.0}",
            peer[0], peer[1], peer[2]
        );
        for connections in [1, 2] {
            let ours = ours(&server, connections).await;
            println!("round {round}: ours, {connections} connections, {CALLERS} callers: {ours:.0}");
        }
    }
}

async fn ours(server: &RedisServer, connections: usize) -> f64 {
    let mut options = options(server.address());
    options.connections_per_node = connections;
    let client = Arc::new(RedisClient::start(&options).unwrap());
    client.wait_until_ready().await;
    let trivial = call(SOURCE, &["k"], &["1"]);
    client.call_within(trivial.clone(), LONG_TIMEOUT).await.unwrap();
    let begun = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (client, trivial) = (Arc::clone(&client), trivial.clone());
            tokio::spawn(async move {
                let mut count = 0_u64;
                while begun.elapsed() < SPAN {
                    client.send_call(trivial.clone(), LONG_TIMEOUT).await.unwrap();
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut count = 0;
    for caller in callers {
        count += caller.await.unwrap();
    }
    per_second(count, begun.elapsed())
}

#[allow(clippy::float_arithmetic, reason = "a figure to print")]
fn per_second(count: u64, span: Duration) -> f64 {
    count as f64 / span.as_secs_f64()
}

/// Returns the calls per second of `redis-benchmark`: the same number in flight over one connection, the same over four,
/// and 50 connections with 16 calls each.
fn redis_benchmark(server: &RedisServer) -> [f64; 3] {
    let Reply::Text(name) = server.command(&["SCRIPT", "LOAD", SOURCE]).unwrap() else { panic!("no text") };
    [("1", "64"), ("4", "16"), ("50", "16")].map(|(connections, pipeline)| {
        let output = Command::new("redis-benchmark")
            .args(["-p", &server.address().port().to_string(), "-n", "600000", "-c", connections, "-P", pipeline])
            .args(["--csv", "EVALSHA", &name, "1", "k", "1"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().last().unwrap();
        line.split("\",\"").nth(1).unwrap().parse().unwrap()
    })
}
