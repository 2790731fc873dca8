//! What several processes admit together, on real servers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use support::{ChildProcess, cluster_options, connect, standalone_options, used};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate_redis::{RedisOptions, RedisStore, StoreSettings};
use tollgate_store::{Charge, Limit, LimitOptions, OnFailure, Quota, Refusals, Source, Store};
use tollgate_testbed::{RedisCluster, RedisServer};

const PROCESSES: usize = 4;
const TASKS: usize = 32;
const CHECKS: usize = 20;
/// What one key admits: less than a fifth of what is asked for.
const LIMIT: u64 = 500;
const PERMITS: u64 = 5;

/// So long that no check fails only because the machine is busy.
fn unhurried() -> StoreSettings {
    StoreSettings { deadline: Duration::from_secs(30), ..StoreSettings::default() }
}

fn closed(refusals: Refusals) -> LimitOptions {
    LimitOptions { on_failure: OnFailure::Closed, refusals }
}

/// Quotas of which nothing comes back during a test, by name.
fn counting_quotas() -> [(&'static str, Quota); 4] {
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
async fn on_one_server_they_admit_what_one_would() {
    let server = RedisServer::start(&[]).unwrap();
    let options = standalone_options(server.address());
    admit_what_one_would(&options, &format!("count standalone {}", server.address())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_they_admit_what_one_would() {
    let cluster = RedisCluster::start().unwrap();
    let options = cluster_options(&cluster);
    admit_what_one_would(&options, &format!("count cluster {}", options.nodes.join(","))).await;
}

async fn admit_what_one_would(options: &RedisOptions, task: &str) {
    let begun = Instant::now();
    let said = run_together(task);
    let store = connect(options, unhurried()).await;
    for (name, quota) in counting_quotas() {
        let admitted = total(&said, name);
        println!("{task}: {name} admitted {admitted} of {}", PROCESSES * TASKS * CHECKS);
        assert_eq!(admitted, LIMIT, "{name}");
        let limit = store.limit(name, quota, closed(Refusals::Brief)).unwrap();
        assert_eq!(used(&store, &limit, "alice").await, LIMIT, "{name}");
    }
    let held: Vec<_> = said.iter().filter_map(|line| Held::read(line)).collect();
    let most = most_at_once(&held);
    println!("{task}: {} permits were held, {most} at once; all took {:?}", held.len(), begun.elapsed());
    assert!(held.len() >= PROCESSES * TASKS, "{}", held.len());
    assert!(most <= PERMITS, "{most} of {PERMITS} permits at once");
    let limit = store.limit("permits", permits(), closed(Refusals::Counted)).unwrap();
    assert_eq!(used(&store, &limit, "alice").await, 0, "permits that did not come back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_across_slots_exceed_no_limit_and_leave_no_charge_behind() {
    let cluster = RedisCluster::start().unwrap();
    let options = cluster_options(&cluster);
    let said = run_together(&format!("slots cluster {}", options.nodes.join(",")));
    let store = connect(&options, unhurried()).await;
    let rules = Rules::new(&store);
    for (scope, limit, size, keys) in rules.all() {
        let (mut admitted_in_all, mut fullest) = (0, 0);
        for key in (0..keys).map(|number| format!("{scope}-{number}")) {
            let admitted = total(&said, &key);
            admitted_in_all += admitted;
            fullest = fullest.max(admitted);
            assert!(admitted <= size, "{key} admitted {admitted} of {size}");
            let used = used(&store, limit, &key).await;
            // A bucket gives back a little less than it took: what time has refilled since. It rounds up.
            let rounding = u64::from(scope == "user");
            assert!((admitted..=admitted + rounding).contains(&used), "{key}: {used} used, {admitted} admitted");
        }
        println!("per {scope}: {admitted_in_all} admitted, the fullest key {fullest} of {size}");
    }
    let refunds = total(&said, "refunds");
    println!("{refunds} charges were given back because another slot refused");
    assert!(refunds > 0, "nothing was contended");
}

/// Runs the processes at the same time, and returns all that they said.
fn run_together(task: &str) -> Vec<String> {
    let mut children: Vec<_> = (0..PROCESSES).map(|_| ChildProcess::start(task)).collect();
    children.iter_mut().for_each(ChildProcess::is_ready);
    children.iter_mut().for_each(ChildProcess::begin);
    children.into_iter().flat_map(ChildProcess::hear_all).collect()
}

/// The sum of what was said under a name.
fn total(said: &[String], name: &str) -> u64 {
    let numbers = said.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    numbers.map(|number| number.parse::<u64>().unwrap()).sum()
}

/// Not a test by itself: what each of the processes does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(task) = ChildProcess::task() else { return };
    let [work, mode, nodes] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let nodes: Vec<_> = nodes.split(',').map(str::to_owned).collect();
    let options = match mode {
        "cluster" => RedisOptions::cluster(nodes),
        _ => RedisOptions::standalone(nodes[0].clone()),
    };
    let store = connect(&options, unhurried()).await;
    ChildProcess::wait_for_the_others();
    match work {
        "count" => count(&store).await,
        _ => charge_across_slots(&store).await,
    }
}

async fn count(store: &Arc<RedisStore>) {
    for (name, quota) in counting_quotas() {
        let limit = store.limit(name, quota, closed(Refusals::Brief)).unwrap();
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (store, limit) = (Arc::clone(store), limit.clone());
            tasks.spawn(async move {
                let mut admitted = 0;
                for _ in 0..CHECKS {
                    let outcome = store.decide(&[charge(&limit, b"alice")]).await;
                    assert_ne!(outcome.source, Source::Fallback, "{outcome:?}");
                    admitted += u64::from(outcome.passed);
                }
                admitted
            });
        }
        let admitted: u64 = tasks.join_all().await.into_iter().sum();
        ChildProcess::say(&format!("{name} {admitted}"));
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
                let mut outcome = store.decide(&[charge]).await;
                assert_ne!(outcome.source, Source::Fallback, "{outcome:?}");
                if let Some((_, permit)) = outcome.receipts.pop() {
                    let from = SystemTime::now();
                    sleep(Duration::from_millis(1)).await;
                    let held = Held { from: microseconds(from), until: microseconds(SystemTime::now()) };
                    store.give_back(permit);
                    return held;
                }
                sleep(Duration::from_millis(1)).await;
            }
            panic!("no permit within ten thousand attempts");
        });
    }
    for held in tasks.join_all().await {
        held.say();
    }
    // Calls arrive in order: when this is answered, all that was given back has arrived.
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
                let outcome = store.decide(&charges).await;
                assert_ne!(outcome.source, Source::Fallback, "{outcome:?}");
                if outcome.passed {
                    keys.into_iter().for_each(|key| *admitted.entry(key).or_default() += 1);
                }
            }
            admitted
        });
    }
    for (key, admitted) in tasks.join_all().await.into_iter().flatten() {
        ChildProcess::say(&format!("{key} {admitted}"));
    }
    ChildProcess::say(&format!("refunds {}", store.stats().refunds));
    // Calls arrive in order: when these are answered, all that was given back has arrived.
    for (scope, limit, _, keys) in rules.all() {
        for number in 0..keys {
            used(store, limit, &format!("{scope}-{number}")).await;
        }
    }
}

/// Three rules whose keys live in different slots.
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

    /// Each with its scope, its size and how many keys there are.
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

/// When a permit was surely held, in microseconds since 1970: processes share no other clock.
#[derive(Clone, Copy)]
struct Held {
    from: u128,
    until: u128,
}

impl Held {
    fn say(self) {
        ChildProcess::say(&format!("held {} {}", self.from, self.until));
    }

    fn read(line: &str) -> Option<Held> {
        let (from, until) = line.strip_prefix("held ")?.split_once(' ')?;
        Some(Held { from: from.parse().ok()?, until: until.parse().ok()? })
    }
}

fn microseconds(time: SystemTime) -> u128 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()
}

fn most_at_once(held: &[Held]) -> u64 {
    let at_once = |at: u128| held.iter().filter(|other| (other.from..other.until).contains(&at)).count();
    held.iter().map(|one| at_once(one.from)).max().unwrap_or(0) as u64
}
