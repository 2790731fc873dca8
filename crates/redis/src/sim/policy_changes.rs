//! A policy that changes while it is in use, on a real server and in memory, against a plain oracle of what may remain.
//!
//! Limits, lists of limits, algorithms, tiers and overrides change at random. After each change, what remains must
//! equal the oracle: the new limit less the usage before. A refused client must be admitted after its `retry_after`.
//! The server runs the script at the times of the test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate::policy::CheckedPolicy;
use tollgate::{AsyncLimiter, Limiter, ManualClock, Request, Verdict};
use tollgate_testbed::RedisServer;

use super::world::BEGAN_US;
use crate::call::{Call, ScriptOp, SlotCharge};
use crate::script::tests::client::Client;
use crate::store::random::Random;
use crate::store::{RedisStore, RedisStoreSettings};
use crate::transport::{Done, ShardId, Slot, Transport};

const SEEDS: u64 = 150;
const STEPS: u32 = 60;

/// A real server whose time is that of the test.
#[derive(Clone)]
struct Server {
    client: Arc<Mutex<Client>>,
    started: Instant,
    /// The expiry of logs by the time of the test, in microseconds. Other values contain it.
    ends: Arc<Mutex<HashMap<Arc<[u8]>, u64>>>,
}

/// The first byte of the values of logs; the time of the newest entry follows.
const LOG_TAG: u8 = 5;

impl Transport for Server {
    fn send(&self, _: Slot, call: Call, _: Instant, done: Done) {
        let now_us = BEGAN_US + self.started.elapsed().as_micros() as u64;
        let (mut client, mut ends) = (self.client.lock().unwrap(), self.ends.lock().unwrap());
        let charges: Vec<SlotCharge> = call.ops.iter().flat_map(charges_of).cloned().collect();
        for key in charges.iter().map(|charge| &charge.target.key) {
            if ends.get(key).is_some_and(|end| *end <= now_us) {
                client.command(&[b"DEL", key]);
                ends.remove(key);
            }
        }
        let reply = client.call(&call, Some(now_us));
        for charge in &charges {
            match client.get(&charge.target.key).as_deref() {
                Some([LOG_TAG, newest @ ..]) if charge.cost > 0 => {
                    let newest_us = newest[..7].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                    let window_us = charge.target.limit.quota().period_ns() / 1_000;
                    ends.insert(Arc::clone(&charge.target.key), newest_us + window_us);
                }
                Some([LOG_TAG, ..]) => {}
                _ => drop(ends.remove(&charge.target.key)),
            }
        }
        done.complete(Ok(reply));
    }

    fn slot(&self, tag: &[u8]) -> Slot {
        Slot(tag.first().copied().unwrap_or(0).into())
    }

    fn shard(&self, _: Slot) -> ShardId {
        ShardId(0)
    }
}

fn charges_of(op: &ScriptOp) -> &[SlotCharge] {
    match op {
        ScriptOp::Decide { charges, .. } => charges,
        _ => &[],
    }
}

struct Pair {
    shared: AsyncLimiter,
    memory: Limiter,
    clock: ManualClock,
    started: Instant,
}

impl Pair {
    fn new(policy: &CheckedPolicy, client: &Arc<Mutex<Client>>) -> Pair {
        let started = Instant::now();
        let server = Server { client: Arc::clone(client), started, ends: Arc::default() };
        // Without an admin interface there are no overrides by an operator, so the test uses those of the policy.
        let store =
            RedisStore::for_test(server, RedisStoreSettings::default(), Box::new(|_| {}), BEGAN_US * 1_000, None);
        let shared = AsyncLimiter::with_store(policy, store).unwrap();
        let clock = ManualClock::at(BEGAN_US * 1_000);
        let memory = Limiter::with_clock(policy, clock.clone()).unwrap();
        Pair { shared, memory, clock, started }
    }

    /// Returns the verdict of both stores, which must be the same.
    async fn check(&self, tier: &str, cost: u64) -> Verdict {
        self.clock.set(BEGAN_US * 1_000 + self.started.elapsed().as_nanos() as u64);
        let identities = [("user", "alice"), ("tier", tier)];
        let request = Request { cost, identities: &identities, ..Request::from_peer(None) };
        let (shared, memory) = (self.shared.check(&request).await, self.memory.check(&request));
        assert_eq!(shared.is_allowed(), memory.is_allowed(), "shared {shared:?}\nmemory {memory:?}");
        let numbers = |verdict: &Verdict| {
            let states = verdict.states().iter();
            states
                .map(|state| (verdict.limit_name(state).to_owned(), state.decision.limit, state.decision.remaining))
                .collect::<Vec<_>>()
        };
        assert_eq!(numbers(&shared), numbers(&memory), "shared {shared:?}\nmemory {memory:?}");
        let wait_us = |verdict: &Verdict| verdict.retry_after().map(|wait| wait.as_nanos().div_ceil(1_000));
        let (on_redis, in_memory) = (wait_us(&shared), wait_us(&memory));
        assert_eq!(on_redis, in_memory, "shared {shared:?}\nmemory {memory:?}");
        memory
    }

    fn change(&self, policy: &CheckedPolicy) {
        self.shared.set_policy(policy).unwrap();
        self.memory.set_policy(policy).unwrap();
    }
}

/// The usage of each counter by the verdict before a change.
#[derive(Default)]
struct Oracle {
    used: HashMap<String, u64>,
    /// Whether the counters were written under the previous policy. Otherwise they are still as an older policy left
    /// them, and may hold more; and a log still holds entries that have left its window since the last request.
    is_written: bool,
    /// Whether the counters may be logs.
    is_log: bool,
}

impl Oracle {
    fn note(&mut self, verdict: &Verdict) {
        let states = verdict.states().iter();
        let used = states.map(|state| (verdict.limit_name(state), state.decision.limit - state.decision.remaining));
        self.used = used.map(|(name, used)| (name.to_owned(), used)).collect();
    }

    /// After a change, at the same time: at most the new limit less the usage remains. Exactly that, if the counters
    /// are known to hold no more.
    fn assert_carried_over(&self, verdict: &Verdict, context: &str) {
        for state in verdict.states() {
            let Some(used) = self.used.get(verdict.limit_name(state)) else { continue };
            let (expected, found) = (state.decision.limit.saturating_sub(*used), state.decision.remaining);
            let is_right = if self.is_written { found == expected } else { found <= expected };
            // A log has the time of each charge, so its usage is exact under another window.
            let is_right = is_right || self.is_log && context.contains(LOG);
            assert!(is_right, "{} had used {used}, and {found} remain: {context}", verdict.limit_name(state));
        }
    }
}

const LOG: &str = "sliding-window-log";

const ALGORITHMS: [&str; 5] = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window-counter", LOG];

fn drawn_limit(random: &mut Random) -> String {
    let rate = |random: &mut Random| {
        let rates = ["1/s", "3/s", "5 per 2s", "10 per 20s", "10/min", "4/min", "100/h", "7/h"];
        rates[random.below(rates.len() as u32) as usize].to_owned()
    };
    let first = rate(random);
    match random.below(4) {
        // The other limits of a list have periods that the first never has, so that each counter belongs to one limit.
        0 => format!("[{first}, {}]", ["20/day", "50/day"][random.below(2) as usize]),
        1 => format!("[{first}, 20/day, {}]", ["40/week", "90/week"][random.below(2) as usize]),
        _ => first,
    }
}

/// Draws a policy of one rule: its algorithm, its limits, by tier or not, and whether the client has an override.
fn drawn_policy(random: &mut Random) -> (String, CheckedPolicy) {
    let algorithm = ALGORITHMS[random.below(5) as usize];
    let limits = if random.below(2) == 0 {
        format!("limit: {}", drawn_limit(random))
    } else {
        format!("tiers: {{ free: {}, pro: {} }}", drawn_limit(random), drawn_limit(random))
    };
    let overrides =
        if random.below(4) == 0 { format!(", overrides: {{ alice: {} }}", drawn_limit(random)) } else { String::new() };
    let text = format!(
        "version: 1\nidentity:\n  user: {{ header: X-User, trusted: true }}\n  \
         tier: {{ header: X-Tier, default: free, trusted: true }}\n\
         rules:\n  - {{ name: api, key: user, {limits}{overrides}, algorithm: {algorithm} }}\n"
    );
    let loaded = tollgate::policy::parse(&text, "policy", None);
    let policy = loaded.unwrap_or_else(|report| panic!("{report:?}\n{text}")).policy;
    (text, policy)
}

/// A refusal, until another request is admitted or the policy changes.
struct Refused {
    cost: u64,
    until: Instant,
}

async fn play(seed: u64, client: &Arc<Mutex<Client>>) -> (u32, u32) {
    let mut random = Random::new(seed);
    let (mut text, policy) = drawn_policy(&mut random);
    let pair = Pair::new(&policy, client);
    let (mut tier, mut refused, mut oracle): (&str, Option<Refused>, Oracle) = ("free", None, Oracle::default());
    let (mut changes, mut waits) = (0, 0);
    for step in 0..STEPS {
        let context = |what: &str| format!("seed {seed}, step {step}, {what}, tier {tier}\n{text}");
        if random.below(5) == 0 {
            oracle.note(&pair.check(tier, 0).await);
            if random.below(3) == 0 {
                tier = ["free", "pro"][random.below(2) as usize];
            } else {
                let (next, policy) = drawn_policy(&mut random);
                pair.change(&policy);
                text = next;
            }
            let context = format!("seed {seed}, step {step}, after a change, tier {tier}\n{text}");
            oracle.assert_carried_over(&pair.check(tier, 0).await, &context);
            (refused, changes, oracle.is_written) = (None, changes + 1, false);
            continue;
        }
        let cost = 1 + u64::from(random.below(3));
        let now = Instant::now();
        let verdict = pair.check(tier, cost).await;
        oracle.is_log = text.contains(LOG);
        oracle.is_written = !oracle.is_log;
        if let Some(wait) = refused.as_ref().filter(|wait| wait.cost == cost && now >= wait.until) {
            assert!(verdict.is_allowed(), "{}: refused after {:?}", context("after the wait"), now - wait.until);
            waits += 1;
        }
        if verdict.is_allowed() {
            refused = None;
        } else if let Some(wait) = verdict.retry_after() {
            let until = now + wait;
            refused.get_or_insert(Refused { cost, until });
        }
        // Often exactly as long as `retry_after`.
        let wait = refused.as_ref().map(|wait| wait.until.saturating_duration_since(Instant::now()));
        match (wait, random.below(3)) {
            (Some(wait), 0) if wait < Duration::from_secs(4_000) => sleep(wait).await,
            _ => sleep(Duration::from_millis([0, 0, 1, 100, 700, 3_000][random.below(6) as usize])).await,
        }
    }
    (changes, waits)
}

#[test]
fn changed_policies_keep_usage_and_retry_after() {
    let server = RedisServer::start(&[]).unwrap();
    let client = Arc::new(Mutex::new(Client::connect(&server)));
    let (mut changes, mut waits) = (0, 0);
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (changed, waited) = runtime.block_on(play(seed, &client));
        (changes, waits) = (changes + changed, waits + waited);
        client.lock().unwrap().command(&[b"FLUSHALL"]);
    }
    // A run in which these cases never occur would prove nothing.
    assert!(changes > 1_000 && waits > 300, "{changes} {waits}");
}
