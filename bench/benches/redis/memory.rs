//! Bytes per key on the server, compared with the layouts of other limiters.

use tollgate_store::Quota;
use tollgate_testbed::Reply;

use crate::effort::Effort;
use crate::goals::Goals;
use crate::layouts::{TODAY, Write, bucket_hash, counter_hash, incremented, key_of, sorted_set};
use crate::pinned::start_server;
use crate::pipeline::{Pipeline, write_command};
use crate::recorder::Recorded;

const BATCH: u64 = 1_000;
const SAMPLE: u64 = 1_000;

/// One measurement: tollgate's key, charged so often at this interval, and the layout of other limiters.
struct Case {
    name: &'static str,
    quota: Quota,
    charges: u64,
    gap_us: u64,
    usual: &'static str,
    write: Write,
    /// The number of keys of the other layout for one of tollgate's.
    usual_keys: u64,
    /// The divisor of the number of clients, because the keys are large.
    every: u64,
    factor: f64,
}

pub(crate) async fn measure(effort: Effort, goals: &mut Goals) {
    println!(
        "\n| bytes a client, by MEMORY USAGE (by used_memory_dataset) | clients | tollgate | the usual | times less |"
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    for case in cases() {
        let clients = effort.clients() / case.every;
        eprintln!("memory: {}, {clients} clients", case.name);
        let ours = ours(&case, clients).await;
        let theirs = weigh(clients * case.usual_keys, None, |bytes, client| (case.write)(bytes, client));
        let (usage, dataset) = (theirs.0 * case.usual_keys as f64, theirs.1 * case.usual_keys as f64);
        let (times, dataset_times) = (usage / ours.0, dataset / ours.1);
        println!(
            "| {}, the usual: {} | {clients} | {:.1} ({:.1}) | {usage:.1} ({dataset:.1}) | {times:.2} ({dataset_times:.2}) |",
            case.name, case.usual, ours.0, ours.1
        );
        goals.add(
            &format!("bytes a key, {}, against {}", case.name, case.usual),
            &format!("{}x less", case.factor),
            &format!("{times:.2}x ({:.0} to {usage:.0})", ours.0),
            times >= case.factor,
        );
    }
}

fn cases() -> Vec<Case> {
    let bucket = Quota::token_bucket("100/min burst 50".parse().unwrap()).unwrap();
    let counter = Quota::sliding_window_counter("100/min".parse().unwrap()).unwrap();
    let window = Quota::fixed_window("100/min".parse().unwrap()).unwrap();
    let log = |rate: &str| Quota::sliding_window_log(rate.parse().unwrap()).unwrap();
    let case = |name, quota, usual, write, factor| Case {
        name,
        quota,
        charges: 1,
        gap_us: 0,
        usual,
        write,
        usual_keys: 1,
        every: 1,
        factor,
    };
    // Two windows, so that both of its counts are in use.
    let both_windows = |case: Case| Case { charges: 2, gap_us: 60_000_000, ..case };
    let full_log = |charges: u64, every: u64, case: Case| Case { charges, gap_us: 59_000_000 / charges, every, ..case };
    let two = case("sliding counter", counter, "two counters", incremented as Write, 1.5);
    vec![
        case("token bucket", bucket, "a hash", bucket_hash, 1.3),
        both_windows(case("sliding counter", counter, "a hash", counter_hash, 1.5)),
        both_windows(Case { usual_keys: 2, ..two }),
        case("fixed window", window, "INCR", incremented, 1.0),
        full_log(5, 5, case("log of 5", log("5/min"), "a sorted set", sorted_set::<5>, 3.0)),
        full_log(100, 50, case("log of 100", log("100/min"), "a sorted set", sorted_set::<100>, 8.0)),
    ]
}

async fn ours(case: &Case, clients: u64) -> (f64, f64) {
    let recorded = Recorded::of(case.quota).await;
    weigh(clients, Some(&recorded), |bytes, client| {
        let key = key_of(client);
        for charge in 0..case.charges {
            let argument = recorded.argument_at(TODAY + client * 7 + charge * case.gap_us);
            write_command(bytes, &[b"EVALSHA", &recorded.name, b"1", key.as_bytes(), &argument]);
        }
        case.charges as usize
    })
}

/// Returns the mean size of a key by `MEMORY USAGE`, and including the table of keys by `used_memory_dataset`.
fn weigh(keys: u64, script: Option<&Recorded>, write: impl Fn(&mut Vec<u8>, u64) -> usize) -> (f64, f64) {
    let server = start_server();
    let mut pipeline = Pipeline::connect(&server);
    if let Some(script) = script {
        assert_eq!(pipeline.load(&script.source), script.name);
    }
    let used = || {
        let Reply::Text(text) = server.command(&["INFO", "memory"]).unwrap() else { panic!("no figures") };
        let figure = text.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
        figure.and_then(|figure| figure.parse::<f64>().ok()).unwrap()
    };
    let before = used();
    for first in (0..keys).step_by(BATCH as usize) {
        let mut bytes = Vec::new();
        let answers = (first..keys.min(first + BATCH)).map(|client| write(&mut bytes, client)).sum();
        pipeline.send(&bytes);
        pipeline.skip(answers);
    }
    assert_eq!(pipeline.integer(&[b"DBSIZE"]), keys);
    let dataset = (used() - before) / keys as f64;
    // A stride that is coprime to the number of keys samples all parts of the key space.
    let sampled = (0..SAMPLE).map(|number| key_of(number * 7_919 % keys));
    let usage: u64 = sampled.map(|key| pipeline.integer(&[b"MEMORY", b"USAGE", key.as_bytes()])).sum();
    (usage as f64 / SAMPLE as f64, dataset)
}
