//! Decisions per second: one rule, three rules, a hot key, and the same script by other clients.

use std::time::Duration;

use tollgate_redis::RedisStoreSettings;
use tollgate_store::Quota;

use crate::callers::{Callers, key};
use crate::effort::Effort;
use crate::goals::{Goals, median};
use crate::pinned::start_server;
use crate::pipeline::{Pipeline, write_command};
use crate::recorder::Recorded;
use crate::redis_benchmark::RedisBenchmark;

const KEYS: usize = 10_000;
const CALLERS: usize = 64;
const HOT_CALLERS: usize = 512;
/// The approximate calls per second of a server: a turn of redis-benchmark is a number of calls.
const ROUGHLY: u64 = 60_000;

const OF_REDIS_BENCHMARK: f64 = 0.9;
const THREE_RULES: f64 = 2.0;
const TOGETHER: f64 = 10.0;

const NAMES: [&str; 7] = [
    "tollgate, one rule, 64 callers",
    "redis-benchmark -c 1 -P 64, the same call",
    "redis-benchmark -c 50 -P 16, the same call",
    "our own generator, the same calls, 128 in flight",
    "tollgate, three rules in one decision, 64 callers",
    "tollgate, a hot key, 512 callers, a call each",
    "tollgate, a hot key, 512 callers, batched",
];

pub(crate) async fn measure(effort: Effort, goals: &mut Goals) {
    let server = start_server();
    let quota = Quota::token_bucket("1000000/s burst 1000000".parse().unwrap()).unwrap();
    let alone = RedisStoreSettings {
        coalesces_checks: false,
        caches_refusals: false,
        deadline: Duration::from_secs(5),
        ..RedisStoreSettings::default()
    };
    let together = RedisStoreSettings { coalesces_checks: true, ..alone.clone() };
    let one = Callers::connect(&server, alone.clone(), &["one"], quota, KEYS, CALLERS).await;
    let three = Callers::connect(&server, alone.clone(), &["one", "two", "six"], quota, KEYS, CALLERS).await;
    let hot_alone = Callers::connect(&server, alone, &["hot"], quota, 1, HOT_CALLERS).await;
    let hot_together = Callers::connect(&server, together, &["hot"], quota, 1, HOT_CALLERS).await;

    let recorded = Recorded::of(quota).await;
    let mut pipeline = Pipeline::connect(&server);
    let script = pipeline.load(&recorded.source);
    let name = |number: usize| format!("tollgate:one:{{{}}}", key(number));
    let calls: Vec<Vec<u8>> = (0..KEYS).map(|number| call(&script, &name(number), &recorded.argument)).collect();
    let batches: Vec<Vec<u8>> = calls.chunks_exact(CALLERS).map(<[_]>::concat).collect();
    let peer = RedisBenchmark::new(&server, &recorded, KEYS);
    // Whole batches, or the program may treat its end as a lost connection.
    let peer_calls = (effort.turn().as_millis() as u64 * ROUGHLY / 1_000).next_multiple_of(64);

    let mut rounds: Vec<[f64; NAMES.len()]> = Vec::new();
    // The first round is a warm-up.
    for round in 0..=effort.rounds() {
        eprintln!("decisions a second: round {round} of {}", effort.rounds());
        let turn = effort.turn();
        let mut figures = [f64::NAN; NAMES.len()];
        for at in 0..NAMES.len() {
            let at = (at + round) % NAMES.len();
            figures[at] = match at {
                0 => one.per_second(turn).await,
                1 => peer.per_second(1, 64, peer_calls).unwrap_or(f64::NAN),
                2 => peer.per_second(50, 16, peer_calls).unwrap_or(f64::NAN),
                // A reply is a list of three numbers.
                3 => pipeline.per_second(&batches, CALLERS, 4, turn),
                4 => three.per_second(turn).await,
                5 => hot_alone.per_second(turn).await,
                _ => hot_together.per_second(turn).await,
            };
        }
        rounds.push(figures);
    }
    rounds.remove(0);
    let stats = hot_together.store.stats();
    report(&rounds, stats.decisions as f64 / stats.calls as f64, goals);
}

fn call(script: &[u8], key: &str, argument: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_command(&mut bytes, &[b"EVALSHA", script, b"1", key.as_bytes(), argument]);
    bytes
}

fn report(rounds: &[[f64; NAMES.len()]], together: f64, goals: &mut Goals) {
    let ratio = |one: usize, other: usize| median(rounds.iter().map(|round| round[one] / round[other]).collect());
    println!("\n| one server, pinned; clients on the other core | a second | of one rule |");
    println!("| --- | ---: | ---: |");
    for (at, name) in NAMES.iter().enumerate() {
        let figure = median(rounds.iter().map(|round| round[at]).collect());
        println!("| {name} | {figure:.0} | {:.2} |", ratio(at, 0));
    }
    println!("\nWith batching, a call had {together:.0} decisions on average.");
    let peers = ratio(0, 1).min(ratio(0, 2));
    goals.add(
        "one rule, 64 callers, against the better of two redis-benchmarks with the same call",
        &format!("at least {OF_REDIS_BENCHMARK}x"),
        &format!("{peers:.2}x ({:.2}x our own generator)", ratio(0, 3)),
        peers >= OF_REDIS_BENCHMARK,
    );
    let three = ratio(0, 4);
    goals.add(
        "three rules of one slot in one decision, against one rule",
        &format!("at most {THREE_RULES}x the time"),
        &format!("{three:.2}x"),
        three <= THREE_RULES,
    );
    let hot = ratio(6, 5);
    goals.add(
        "a hot key, batched, against a call each",
        &format!("at least {TOGETHER}x the decisions a second"),
        &format!("{hot:.1}x"),
        hot >= TOGETHER,
    );
}
