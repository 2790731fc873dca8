//! The latency of a well-behaved client during an attack, and the memory and processor time of the service.
//!
//! One thread does both in turn: a step of the attack, then one request over each front end, so that no scheduler is
//! between the clock and the service. On a busy machine there is one: then the longest waits are those for
//! a processor, with or without an attack, and only the processor time of the service for a turn can be compared.
//!
//! The attacker has another address. The goals: the service uses at most 256 MB more than when idle, and the 99th
//! percentile of the other client's latency is below 10 ms.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::attacks::{Attack, all};
use crate::grpc_dialect::Rls;
use crate::http_dialect::Http;
use crate::load::Connection;
use crate::process::{Process, pin_to_core};
use crate::resp_dialect::Resp;
use crate::rounds::Effort;

const FRONT_ENDS: [&str; 3] = ["HTTP", "gRPC", "RESP"];

/// The time in which the service must close the connections of an attack.
const SETTLE: Duration = Duration::from_millis(500);

pub(crate) fn measure(effort: Effort) {
    let tollgate = Process::serve("tollgate", &[]);
    pin_to_core(0);
    // As long as all turns of one contestant of the other benchmarks.
    let time = effort.turn * u32::try_from(effort.rounds).unwrap() / 2;
    let idle_mb = tollgate.resident_mb();
    println!(
        "\n| during | {} | CPU us a turn | most memory above idle, MB |",
        FRONT_ENDS.map(|name| format!("{name} p50, us | p99, us")).join(" | ")
    );
    println!("| --- |{} --- | --- |", " --- | --- |".repeat(FRONT_ENDS.len()));
    for (name, mut attack) in all(&tollgate) {
        eprintln!("hostile: {name}");
        tollgate.forget_peak();
        let cpu_before_ns = tollgate.cpu_ns();
        let waits = polite_waits(&tollgate, &mut *attack, time);
        let cpu_us = (tollgate.cpu_ns() - cpu_before_ns) as f64 / 1e3 / waits[0].len() as f64;
        let quantiles = waits.iter().map(|waits| {
            let us = |quantile| waits.value_at_quantile(quantile) as f64 / 1e3;
            format!("{:.0} | {:.0}", us(0.5), us(0.99))
        });
        let quantiles = quantiles.collect::<Vec<_>>().join(" | ");
        let more_mb = tollgate.peak_mb().saturating_sub(idle_mb);
        println!("| {name} | {quantiles} | {cpu_us:.0} | {more_mb} |");
        // Closing a thousand connections must not count for the next attack.
        drop(attack);
        std::thread::sleep(SETTLE);
    }
}

/// The latencies over each front end, in nanoseconds.
fn polite_waits(tollgate: &Process, attack: &mut dyn Attack, time: Duration) -> [Histogram<u64>; FRONT_ENDS.len()] {
    let mut polite = [
        Connection::open(tollgate.address("http"), Box::new(Http::check(9))),
        Connection::open(tollgate.address("grpc"), Box::new(Rls::of_address(9))),
        Connection::open(tollgate.address("resp"), Box::new(Resp::throttle("user:000009"))),
    ];
    let mut waits = FRONT_ENDS.map(|_| Histogram::new(3).unwrap());
    let begun = Instant::now();
    while begun.elapsed() < time {
        attack.step();
        for (connection, waits) in polite.iter_mut().zip(&mut waits) {
            let out = Instant::now();
            connection.send(1);
            while !connection.is_answered() {}
            waits.record(u64::try_from(out.elapsed().as_nanos()).unwrap()).unwrap();
        }
    }
    waits
}
