//! Compares a policy on a shared store with the same policy in memory, at the same times: same action, same numbers.

// Figures are for people.
#![allow(clippy::print_stdout)]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate::store::Source;
use tollgate::{Action, AsyncLimiter, Limiter, ManualClock, Request, Verdict};
use tollgate_core::Decision;

use super::shard::Shard;
use super::world::BEGAN_US;
use crate::call::Call;
use crate::store::random::Random;
use crate::store::{RedisStore, RedisStoreSettings};
use crate::transport::{Done, ShardId, Slot, Transport};

const SEEDS: u64 = 400;

/// One server that replies to every call at once.
#[derive(Clone)]
struct InstantTransport {
    shard: Arc<Mutex<Shard>>,
    started: Instant,
}

impl Transport for InstantTransport {
    fn send(&self, _: Slot, call: Call, _: Instant, done: Done) {
        let now_us = BEGAN_US + self.started.elapsed().as_micros() as u64;
        let reply = self.shard.lock().unwrap().execute(&call, now_us, &mut Vec::new());
        done.complete(Ok(reply));
    }

    fn slot(&self, tag: &[u8]) -> Slot {
        Slot(tag.first().copied().unwrap_or(0).into())
    }

    fn shard(&self, _: Slot) -> ShardId {
        ShardId(0)
    }
}

/// Two instances on one server, and the same policy in memory.
struct Pair {
    shared: Vec<AsyncLimiter>,
    memory: Limiter,
    clock: ManualClock,
    started: Instant,
}

/// A request: instance, client and cost.
#[derive(Clone, Copy, Debug)]
struct Check {
    instance: usize,
    user: &'static str,
    ip: u8,
    cost: u64,
}

const ALICE: Check = Check { instance: 0, user: "alice", ip: 1, cost: 1 };

impl Pair {
    /// Creates the limiters. Must be called in virtual time.
    fn new(policy: &str) -> Pair {
        let loaded = tollgate::policy::parse(policy, "policy", None);
        let policy = loaded.unwrap_or_else(|report| panic!("{report:?}\n{policy}")).policy;
        let transport = InstantTransport { shard: Arc::default(), started: Instant::now() };
        let shared = || {
            let (transport, settings) = (transport.clone(), RedisStoreSettings::default());
            let store = RedisStore::for_test(transport, settings, Box::new(|_| {}), BEGAN_US * 1_000, None);
            AsyncLimiter::with_store(&policy, store).unwrap()
        };
        let clock = ManualClock::at(BEGAN_US * 1_000);
        let memory = Limiter::with_clock(&policy, clock.clone()).unwrap();
        Pair { shared: vec![shared(), shared()], memory, clock, started: transport.started }
    }

    /// Returns the verdicts of the shared store and of the memory store.
    async fn check(&self, check: Check) -> (Verdict, Verdict) {
        self.clock.set(BEGAN_US * 1_000 + self.started.elapsed().as_nanos() as u64);
        let identities = [("user", check.user)];
        let peer = Some(IpAddr::V4(Ipv4Addr::new(203, 0, 113, check.ip)));
        let request = Request { cost: check.cost, identities: &identities, ..Request::from_peer(peer) };
        (self.shared[check.instance].check(&request).await, self.memory.check(&request))
    }

    /// Asserts that both verdicts are equal, and returns the shared one.
    async fn check_equal(&self, check: Check) -> Verdict {
        let (shared, memory) = self.check(check).await;
        assert!(is_equal(&shared, &memory), "{check:?}\nshared {shared:?}\nmemory {memory:?}");
        shared
    }
}

/// Returns whether two verdicts are equal. A shared store rounds up to microseconds, and memory to nanoseconds.
fn is_equal(shared: &Verdict, memory: &Verdict) -> bool {
    let is_time = |shared: u64, memory: u64| (memory..memory + 1_000).contains(&shared);
    let is_wait = |shared: Option<u64>, memory: Option<u64>| match (shared, memory) {
        (Some(shared), Some(memory)) => is_time(shared, memory),
        (shared, memory) => shared == memory,
    };
    let is_decision = |shared: &Decision, memory: &Decision| {
        std::mem::discriminant(&shared.verdict) == std::mem::discriminant(&memory.verdict)
            && (shared.limit, shared.remaining) == (memory.limit, memory.remaining)
            && is_wait(shared.retry_after(), memory.retry_after())
            && is_time(shared.next_after, memory.next_after)
            && is_time(shared.reset_after, memory.reset_after)
    };
    let ns = |verdict: &Verdict| verdict.retry_after().map(|wait| wait.as_nanos() as u64);
    let names = |verdict: &Verdict| {
        let states = verdict.states().iter().map(|state| (verdict.limit_name(state).to_owned(), state.shadow));
        (states.collect::<Vec<_>>(), verdict.warned_by().map(str::to_owned).collect::<Vec<_>>())
    };
    (shared.action(), shared.rule()) == (memory.action(), memory.rule())
        && is_wait(ns(shared), ns(memory))
        && names(shared) == names(memory)
        && shared.states().iter().zip(memory.states()).all(|(one, other)| is_decision(&one.decision, &other.decision))
}

/// Draws a policy: rules with and without escalation, of all algorithms.
fn drawn_policy(random: &mut Random) -> String {
    let mut rules = String::new();
    for number in 0..1 + random.below(3) {
        let pick = |random: &mut Random, from: &[&'static str]| from[random.below(from.len() as u32) as usize];
        let key = pick(random, &["user", "user", "client_ip", "[user, client_ip]"]);
        let algorithm = pick(
            random,
            &["token-bucket", "leaky-bucket", "fixed-window", "sliding-window-counter", "sliding-window-log"],
        );
        let limit = pick(random, &["1/s", "2/s", "5/s", "3/min", "4 per 10s", "3/h"]);
        let burst = if algorithm.ends_with("bucket") { pick(random, &["", " burst 1", " burst 3"]) } else { "" };
        let escalation = match random.below(7) {
            0 => "    on_limit: [ { first: 1, action: warn }, { then: reject } ]\n",
            1 => "    on_limit: [ { after: 2 in 1min, action: block 5s } ]\n",
            2 => "    on_limit: [ { first: 1, action: warn }, { after: 3 in 10s, action: block 1min } ]\n",
            3 => "    shadow: true\n",
            _ => "",
        };
        rules.push_str(&format!(
            "  - name: rule-{number}\n    key: {key}\n    limit: {limit}{burst}\n    algorithm: {algorithm}\n{escalation}"
        ));
    }
    format!("version: 1\nidentity:\n  user: {{ header: X-User, trusted: true }}\nrules:\n{rules}")
}

fn drawn_check(random: &mut Random) -> Check {
    Check {
        instance: random.below(2) as usize,
        user: ["alice", "bob"][random.below(4) as usize / 3],
        ip: 1 + (random.below(4) / 3) as u8,
        cost: [1, 1, 1, 1, 2, 3, 9, 0][random.below(8) as usize],
    }
}

fn in_virtual_time<F: Future>(scenario: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(scenario)
}

#[test]
fn verdicts_on_redis_equal_those_in_memory_with_and_without_escalation() {
    let (mut answers, mut cached, mut blocks, mut different, mut first) = (0, 0, 0, 0, None);
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let policy = drawn_policy(&mut random);
        in_virtual_time(async {
            let pair = Pair::new(&policy);
            for _ in 0..80 {
                let pause = [0, 0, 0, 0, 1, 7, 100, 250, 1_000, 5_000][random.below(10) as usize];
                sleep(Duration::from_millis(pause)).await;
                let check = drawn_check(&mut random);
                let (shared, memory) = pair.check(check).await;
                answers += 1;
                cached += u32::from(shared.source() == Source::Cached);
                blocks += u32::from(memory.action() == Action::Block);
                if !is_equal(&shared, &memory) {
                    different += 1;
                    first.get_or_insert_with(|| {
                        format!("seed {seed}, {check:?}\n{policy}\nshared {shared:?}\nmemory {memory:?}")
                    });
                }
            }
        });
    }
    println!("{answers} answers, {cached} from the cache of refusals, {blocks} blocks: {different} differ");
    assert!(first.is_none(), "{different} of {answers} answers differ, the first: {}", first.unwrap_or_default());
    // A run in which these cases never occur would prove nothing.
    assert!(cached > 500 && blocks > 500, "{cached} {blocks}");
}

const HEAD: &str = "version: 1\nidentity:\n  user: { header: X-User, trusted: true }\nrules:\n";

#[test]
fn cached_refusal_uses_the_cost_of_the_request() {
    let policy = format!("{HEAD}  - {{ name: hourly, key: user, limit: 3/h burst 3 }}\n");
    in_virtual_time(async {
        let pair = Pair::new(&policy);
        for _ in 0..3 {
            assert!(pair.check_equal(ALICE).await.is_allowed());
        }
        assert_eq!(pair.check_equal(ALICE).await.source(), Source::Exact);
        sleep(Duration::from_millis(1)).await;
        let mut waits = Vec::new();
        for cost in [1, 3, 9] {
            let verdict = pair.check_equal(Check { cost, ..ALICE }).await;
            assert_eq!(verdict.source(), Source::Cached);
            waits.push(verdict.retry_after().map(|wait| wait.as_millis()));
        }
        assert_eq!(waits, [Some(1_199_999), Some(3_599_999), None]);
    });
}

#[test]
fn violations_are_counted_although_another_rule_has_a_cached_refusal() {
    let policy = format!(
        "{HEAD}  - {{ name: plain, key: user, limit: 2/h, algorithm: fixed-window }}
  - name: strict
    key: user
    limit: 2/h
    algorithm: fixed-window
    on_limit: [ {{ then: reject }}, {{ after: 5 in 10min, action: block 15min }} ]\n"
    );
    in_virtual_time(async {
        let pair = Pair::new(&policy);
        let (mut on_redis, mut in_memory) = (0, 0);
        for _ in 0..40 {
            sleep(Duration::from_millis(1)).await;
            let (shared, memory) = pair.check(ALICE).await;
            on_redis += u32::from(shared.action() == Action::Block);
            in_memory += u32::from(memory.action() == Action::Block);
        }
        assert_eq!((on_redis, in_memory), (33, 33));
    });
}

#[test]
fn retry_after_of_a_blocked_client_is_the_later_of_block_and_limit() {
    let policy = format!(
        "{HEAD}  - name: login
    key: user
    limit: 1/h
    algorithm: sliding-window-log
    on_limit: [ {{ then: reject }}, {{ after: 1 in 10min, action: block 1min }} ]\n"
    );
    in_virtual_time(async {
        let pair = Pair::new(&policy);
        let mut sources = Vec::new();
        for _ in 0..6 {
            let verdict = pair.check_equal(ALICE).await;
            sources.push((verdict.action(), verdict.source()));
            sleep(Duration::from_millis(1)).await;
        }
        let (action, source) = sources[5];
        assert_eq!((action, source), (Action::Block, Source::Cached), "{sources:?}");
        let wait = pair.check_equal(ALICE).await.retry_after().unwrap();
        assert_eq!(wait, Duration::from_secs(3_600) - Duration::from_millis(6));
    });
}

/// The limit of a blocking rule has capacity again, and is not charged during the block.
#[test]
fn block_is_cached_although_its_limit_has_capacity() {
    let policy = format!(
        "{HEAD}  - name: login
    key: user
    limit: 5/s burst 5
    on_limit: [ {{ after: 1 in 10min, action: block 15min }} ]\n"
    );
    in_virtual_time(async {
        let pair = Pair::new(&policy);
        for _ in 0..7 {
            pair.check_equal(ALICE).await;
        }
        let (mut cached, mut instance) = (0, 0);
        for _ in 0..100 {
            sleep(Duration::from_millis(100)).await;
            instance = 1 - instance;
            for cost in [1, 2, 9] {
                let verdict = pair.check_equal(Check { instance, cost, ..ALICE }).await;
                assert_eq!(verdict.action(), Action::Block);
                cached += u32::from(verdict.source() == Source::Cached);
            }
        }
        assert!(cached >= 270, "each instance calls about once a second: {cached} of 300 from the cache");
    });
}

#[test]
fn cached_refusal_contains_every_matched_rule() {
    let policy = format!(
        "{HEAD}  - {{ name: per-user, key: user, limit: 1/h, algorithm: fixed-window }}
  - {{ name: per-ip, key: client_ip, limit: 9/h, algorithm: fixed-window }}\n"
    );
    in_virtual_time(async {
        let pair = Pair::new(&policy);
        for _ in 0..3 {
            assert_eq!(pair.check_equal(ALICE).await.states().len(), 2);
        }
        // Another client of the address spends, on another instance.
        pair.check_equal(Check { instance: 1, user: "bob", ..ALICE }).await;
        let verdict = pair.check_equal(ALICE).await;
        assert_eq!((verdict.rule(), verdict.states()[1].decision.remaining), (Some("per-user"), 7));
    });
}
