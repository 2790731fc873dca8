//! Several processes share limits exactly, on real servers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use support::{ChildProcess, cluster_options, connect, standalone_options, used};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings};
use tollgate_store::{Charge, Limit, LimitOptions, OnFailure, Quota, Refusals, Source, Store};
use tollgate_testbed::{RedisCluster, RedisServer};

const PROCESSES: usize = 4;
const TASKS: usize = 32;
const CHECKS: usize = 20;
/// The limit of a key: less than a fifth of the number of checks.
const LIMIT: u64 = 500;
const PERMITS: u64 = 5;

/// Settings with a deadline so long that no check fails only because the machine is busy.
fn settings_with_long_deadline() -> RedisStoreSettings {
    RedisStoreSettings { deadline: Duration::from_secs(30), ..RedisStoreSettings::default() }
}

fn closed(refusals: Refusals) -> LimitOptions {
    LimitOptions { on_failure: OnFailure::Closed, refusals, lease: None, regional: false }
}

/// Returns quotas that refill nothing during a test, by name.
fn quotas_without_refill() -> [(&'static str, Quota); 4] {
    let window = format!("{LIMIT} per 10 years").parse().unwrap();
    [
        ("token-bucket", Quota::token_bucket(format!("1/day burst {LIMIT}").parse().unwrap()).unwrap()),
        ("fixed-window", Quota::fixed_window(window).unwrap()),
        ("sliding-log", Quota::sliding_window_log(window).unwrap()),
        ("sliding-counter", Quota::sliding_window_counter(window).unwrap()),
    ]
}

fn permits() -> Quota {
    Quota::concurrency(PERMITS, Some(Duration::from_secs(600))).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_on_one_server_together_admit_exactly_the_limits() {
    let server = RedisServer::start(&[]).unwrap();
    let options = standalone_options(server.address());
    admit_exactly_the_limits(&options, &format!("count standalone {}", server.address())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_on_a_cluster_together_admit_exactly_the_limits() {
    let cluster = RedisCluster::start().unwrap();
    let options = cluster_options(&cluster);
    admit_exactly_the_limits(&options, &format!("count cluster {}", options.nodes.join(","))).await;
}

async fn admit_exactly_the_limits(options: &RedisOptions, task: &str) {
    let begun = Instant::now();
    let messages = run_processes(task);
    let store = connect(options, settings_with_long_deadline()).await;
    for (name, quota) in quotas_without_refill() {
        let admitted = total(&messages, name);
        println!("{task}: {name} admitted {admitted} of {}", PROCESSES * TASKS * CHECKS);
        assert_eq!(admitted, LIMIT, "{name}");
        let limit = store.limit(name, quota, closed(Refusals::Brief)).unwrap();
        assert_eq!(used(&store, &limit, "alice").await, LIMIT, "{name}");
    }
    let held: Vec<_> = messages.iter().filter_map(|line| Held::parse(line)).collect();
    let most = max_concurrent(&held);
    println!("{task}: {} permits were held, {most} at once; all took {:?}", held.len(), begun.elapsed());
    assert!(held.len() >= PROCESSES * TASKS, "{}", held.len());
    assert!(most <= PERMITS, "{most} of {PERMITS} permits at once");
    let limit = store.limit("permits", permits(), closed(Refusals::Counted)).unwrap();
    assert_eq!(used(&store, &limit, "alice").await, 0, "permits that were not released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_across_slots_exceed_no_limit_and_refund_refused_charges() {
    let cluster = RedisCluster::start().unwrap();
    let options = cluster_options(&cluster);
    let messages = run_processes(&format!("slots cluster {}", options.nodes.join(",")));
    let store = connect(&options, settings_with_long_deadline()).await;
    let rules = Rules::new(&store);
    for (scope, limit, size, keys) in rules.all() {
        let (mut total_admitted, mut fullest) = (0, 0);
        for key in (0..keys).map(|number| format!("{scope}-{number}")) {
            let admitted = total(&messages, &key);
            total_admitted += admitted;
            fullest = fullest.max(admitted);
            assert!(admitted <= size, "{key} admitted {admitted} of {size}");
            let used = used(&store, limit, &key).await;
            // A bucket refunds slightly less than it charged, because time has refilled some of it since. Usage is
            // rounded up.
            let rounding = u64::from(scope == "user");
            assert!((admitted..=admitted + rounding).contains(&used), "{key}: {used} used, {admitted} admitted");
        }
        println!("per {scope}: {total_admitted} admitted, the fullest key {fullest} of {size}");
    }
    let refunds = total(&messages, "refunds");
    println!("{refunds} charges were refunded because another slot refused");
    assert!(refunds > 0, "no request was refused by another slot");
}

/// Runs the processes concurrently, and returns all their messages.
fn run_processes(task: &str) -> Vec<String> {
    let mut children: Vec<_> = (0..PROCESSES).map(|_| ChildProcess::start(task)).collect();
    children.iter_mut().for_each(ChildProcess::wait_until_ready);
    children.iter_mut().for_each(ChildProcess::begin);
    children.into_iter().flat_map(ChildProcess::receive_all).collect()
}

/// Returns the sum of the numbers reported under a name.
fn total(messages: &[String], name: &str) -> u64 {
    let numbers = messages.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    numbers.map(|number| number.parse::<u64>().unwrap()).sum()
}

/// Not a test: the work of each process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(task) = ChildProcess::task() else { return };
    let [work, mode, nodes] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let nodes: Vec<_> = nodes.split(',').map(str::to_owned).collect();
    let options = match mode {
        "cluster" => RedisOptions::cluster(nodes),
        _ => RedisOptions::standalone(nodes[0].clone()),
    };
    let store = connect(&options, settings_with_long_deadline()).await;
    ChildProcess::wait_for_start();
    match work {
        "count" => count(&store).await,
        _ => charge_across_slots(&store).await,
    }
}

async fn count(store: &Arc<RedisStore>) {
    for (name, quota) in quotas_without_refill() {
        let limit = store.limit(name, quota, closed(Refusals::Brief)).unwrap();
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (store, limit) = (Arc::clone(store), limit.clone());
            tasks.spawn(async move {
                let mut admitted = 0;
                for _ in 0..CHECKS {
                    let outcome = store.check_all(&[charge(&limit, b"alice")]).await;
                    assert_ne!(outcome.source, Source::Fallback, "{outcome:?}");
                    admitted += u64::from(outcome.passed);
                }
                admitted
            });
        }
        let admitted: u64 = tasks.join_all().await.into_iter().sum();
        ChildProcess::send(&format!("{name} {admitted}"));
    }
    hold_permits(store).await;
}

async fn hold_permits(store: &Arc<RedisStore>) {
    let limit = store.limit("permits", permits(), closed(Refusals::Counted)).unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (store, limit) = (Arc::clone(store), limit.clone());
        tasks.spawn(async move {
            for _ in 0..10_000 {
                let charge = Charge { receipt: true, ..charge(&limit, b"alice") };
                let mut outcome = store.check_all(&[charge]).await;
                assert_ne!(outcome.source, Source::Fallback, "{outcome:?}");
                if let Some((_, permit)) = outcome.receipts.pop() {
                    let from = SystemTime::now();
                    sleep(Duration::from_millis(1)).await;
                    let held = Held { from: microseconds(from), until: microseconds(SystemTime::now()) };
                    store.refund(permit);
                    return held;
                }
                sleep(Duration::from_millis(1)).await;
            }
            panic!("no permit within ten thousand attempts");
        });
    }
    for held in tasks.join_all().await {
        held.send();
    }
    // Calls are executed in order: after this reply all releases have been executed.
    used(store, &limit, "alice").await;
}

async fn charge_across_slots(store: &Arc<RedisStore>) {
    let rules = Arc::new(Rules::new(store));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (store, rules) = (Arc::clone(store), Arc::clone(&rules));
        tasks.spawn(async move {
            let mut admitted = BTreeMap::<String, u64>::new();
            for number in task * CHECKS..(task + 1) * CHECKS {
                let keys = rules.all().map(|(scope, _, _, keys)| format!("{scope}-{}", number * 7 % keys));
                let charges = [0, 1, 2].map(|at| charge(rules.all()[at].1, keys[at].as_bytes()));
                let outcome = store.check_all(&charges).await;
                assert_ne!(outcome.source, Source::Fallback, "{outcome:?}");
                if outcome.passed {
                    keys.into_iter().for_each(|key| *admitted.entry(key).or_default() += 1);
                }
            }
            admitted
        });
    }
    for (key, admitted) in tasks.join_all().await.into_iter().flatten() {
        ChildProcess::send(&format!("{key} {admitted}"));
    }
    ChildProcess::send(&format!("refunds {}", store.stats().refunds));
    // Calls are executed in order: after these replies all refunds have been executed.
    for (scope, limit, _, keys) in rules.all() {
        for number in 0..keys {
            used(store, limit, &format!("{scope}-{number}")).await;
        }
    }
}

/// Three limits whose keys are in different slots.
struct Rules {
    ip: Limit,
    user: Limit,
    tenant: Limit,
}

impl Rules {
    const IP: u64 = 60;
    const USER: u64 = 110;
    const TENANT: u64 = 170;

    fn new(store: &RedisStore) -> Rules {
        let rate = |limit: u64| format!("{limit} per 10 years").parse().unwrap();
        let bucket = format!("1/day burst {}", Rules::USER).parse().unwrap();
        let limit = |scope, quota| store.limit(scope, quota, closed(Refusals::Brief)).unwrap();
        Rules {
            ip: limit("ip", Quota::sliding_window_log(rate(Rules::IP)).unwrap()),
            user: limit("user", Quota::token_bucket(bucket).unwrap()),
            tenant: limit("tenant", Quota::fixed_window(rate(Rules::TENANT)).unwrap()),
        }
    }

    /// Returns each limit with its scope, its size and the number of its keys.
    fn all(&self) -> [(&'static str, &Limit, u64, usize); 3] {
        [
            ("ip", &self.ip, Rules::IP, 8),
            ("user", &self.user, Rules::USER, 5),
            ("tenant", &self.tenant, Rules::TENANT, 3),
        ]
    }
}

fn charge<'a>(limit: &'a Limit, key: &'a [u8]) -> Charge<'a> {
    Charge::new(limit, key, 1)
}

/// The time for which a permit was certainly held, in microseconds since 1970: processes share no other clock.
#[derive(Clone, Copy)]
struct Held {
    from: u128,
    until: u128,
}

impl Held {
    fn send(self) {
        ChildProcess::send(&format!("held {} {}", self.from, self.until));
    }

    fn parse(line: &str) -> Option<Held> {
        let (from, until) = line.strip_prefix("held ")?.split_once(' ')?;
        Some(Held { from: from.parse().ok()?, until: until.parse().ok()? })
    }
}

fn microseconds(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()
}

/// Returns the maximum number of permits held at the same time.
fn max_concurrent(held: &[Held]) -> u64 {
    let held_at = |at: u128| held.iter().filter(|other| (other.from..other.until).contains(&at)).count();
    held.iter().map(|one| held_at(one.from)).max().unwrap_or(0) as u64
}
