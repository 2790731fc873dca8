//! The simulation of leases: several instances spend and exchange tokens of one limit under failures, and an
//! independent log of admissions is held to the limit at every instant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::{Algorithm, AlgorithmKind, CompiledQuota, Quota, Rate, Tick, max_admitted};
use tollgate_store::{Charge, Limit, LimitOptions, OnFailure, Refusals, Source, Store};

use super::InjectedFault;
use super::world::{BEGAN_US, Link, SharedWorld, World, locked};
use crate::script::KeyState;
use crate::store::random::Random;
use crate::store::{LeaseClock, ReceiptKind, RedisStore, RedisStoreSettings, receipt_kind};

/// The number of seeds of an ordinary run, in two halves so that two processors share them.
const SEEDS: u64 = 3_200;

/// The beginning of the error for admissions over the limit.
const EXCEEDED: &str = "limit exceeded";

const TICK: Duration = Duration::from_millis(5);

fn check_seeds(seeds: std::ops::Range<u64>) {
    let mut all = LeaseCoverage::default();
    for seed in seeds {
        match run(seed, None) {
            Ok(coverage) => all.add(&coverage),
            Err(violation) => panic!("TOLLGATE_SEED={seed}: {violation}"),
        }
    }
    // A run in which some cases never occur would prove nothing.
    assert!(all.is_complete(), "{all:?}");
}

#[test]
fn leases_never_admit_more_than_the_limit() {
    if let Some(seed) = std::env::var("TOLLGATE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let result = run(seed, None);
        assert!(result.is_ok(), "seed {seed}: {result:?}");
        return;
    }
    let seeds = std::env::var("TOLLGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    check_seeds(0..seeds / 2);
}

#[test]
fn leases_never_admit_more_than_the_limit_in_other_seeds() {
    check_seeds(SEEDS / 2..SEEDS);
}

#[test]
fn lease_runs_of_one_seed_are_identical() {
    for seed in 0..10 {
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
}

macro_rules! faults {
    ($($name:ident: $fault:ident),* $(,)?) => {
        $(#[test] fn $name() {
            let is_exceeded = |seed: u64| run(seed, Some(InjectedFault::$fault)).is_err_and(|what| what.contains(EXCEEDED));
            let found = (0..SEEDS).any(is_exceeded);
            assert!(found, "{:?} was not detected", InjectedFault::$fault);
        })*
    };
}

faults! {
    refill_while_leased_is_detected: RefillWhileLeased,
    reports_charged_before_the_refill_are_detected: ReportsBeforeRefill,
    return_that_is_sent_again_is_detected: ResendReturn,
    lease_counted_twice_is_detected: DoubleGrant,
    settlement_of_a_generation_that_has_ended_is_detected: SettleAnyGeneration,
    value_that_ends_before_its_leases_is_detected: ValueEndsBeforeLeases,
    lease_that_outlives_its_generation_is_detected: LeaseOutlivesGeneration,
}

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LeaseCoverage {
    leased: u64,
    exact: u64,
    refused_by_lease: u64,
    refunded: u64,
    stranded: u64,
    crashes: u64,
    pauses: u64,
    failovers: u64,
    steps: u64,
    recovered: u64,
}

impl LeaseCoverage {
    fn add(&mut self, other: &LeaseCoverage) {
        self.leased += other.leased;
        self.exact += other.exact;
        self.refused_by_lease += other.refused_by_lease;
        self.refunded += other.refunded;
        self.stranded += other.stranded;
        self.crashes += other.crashes;
        self.pauses += other.pauses;
        self.failovers += other.failovers;
        self.steps += other.steps;
        self.recovered += other.recovered;
    }

    fn is_complete(&self) -> bool {
        let LeaseCoverage { leased, exact, refused_by_lease, refunded, stranded, .. } = *self;
        let LeaseCoverage { crashes, pauses, failovers, steps, recovered, .. } = *self;
        let counts =
            [leased, exact, refused_by_lease, refunded, stranded, crashes, pauses, failovers, steps, recovered];
        counts.into_iter().all(|count| count > 0)
    }
}

/// Runs one seed. The error is the bound that was exceeded.
fn run(seed: u64, fault: Option<InjectedFault>) -> Result<LeaseCoverage, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { LeaseScenario::new(seed, fault).play().await })
}

/// The failures of a scenario, beside those of single calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// Partitions, pauses and crashes of instances.
    Instances,
    /// The same, failovers, and steps of the servers' clock.
    Servers,
}

/// The admissions of a key: the time in microseconds since the start, and the cost. A refund subtracts from the cost.
#[derive(Default)]
struct Admissions(Vec<(u64, u64)>);

struct LeaseScenario {
    world: SharedWorld,
    random: Random,
    instances: Vec<Instance>,
    quota: Quota,
    keys: Vec<Vec<u8>>,
    admissions: Arc<Mutex<Vec<Admissions>>>,
    /// How many more tokens a key may admit because of failovers and steps of the clock.
    allowance: u64,
    trouble: Trouble,
    makes_refunds: bool,
    observed: Arc<Mutex<LeaseCoverage>>,
}

struct Instance {
    store: Arc<RedisStore>,
    limit: Limit,
    /// The demand, in thousandths of the limit's rate.
    demand: u64,
    /// Demand that did not make a whole request yet, in millionths of a token.
    rest: u64,
    is_dead: bool,
}

fn bucket(per_second: u64, burst: u64) -> Quota {
    let rate = Rate::new(per_second, Duration::from_secs(1)).unwrap().with_burst(burst).unwrap();
    Quota::token_bucket(rate).unwrap()
}

impl LeaseScenario {
    fn new(seed: u64, fault: Option<InjectedFault>) -> LeaseScenario {
        let mut random = Random::new(seed ^ 0x1ea5e);
        let between = |random: &mut Random, from: u32, to: u32| u64::from(from + random.below(to - from + 1));
        let trouble =
            [Trouble::None, Trouble::Instances, Trouble::Instances, Trouble::Servers][random.below(4) as usize];
        let faults_per_mille = [0, 20, 100, 250][random.below(4) as usize];
        let faults_per_mille = if trouble == Trouble::None { 0 } else { faults_per_mille };
        let world = World::new(Random::new(random.next()), 1, 1, faults_per_mille, fault);
        let world: SharedWorld = Arc::new(Mutex::new(world));
        let amount = between(&mut random, 40, 160);
        let rate = Rate::new(amount, Duration::from_millis([500, 1_000, 2_000][random.below(3) as usize])).unwrap();
        // Shorter windows of counters are not leased.
        let of_counter = Rate::new(5 * amount, Duration::from_secs(5)).unwrap();
        let quota = match random.below(8) {
            0 => Quota::fixed_window(rate).unwrap(),
            1 => Quota::sliding_window_counter(of_counter).unwrap(),
            2 => Quota::sliding_window_log(rate).unwrap(),
            _ => bucket(amount, between(&mut random, 10, 100)),
        };
        let generation = Duration::from_millis([100, 200, 500][random.below(3) as usize]);
        let count = 2 + random.below(3) as usize;
        let started = Instant::now();
        let instances = (0..count).map(|instance| {
            let link = Link { world: Arc::clone(&world), instance };
            let settings = RedisStoreSettings { seed: random.next(), ..RedisStoreSettings::default() };
            let drift_ppm = match fault {
                Some(InjectedFault::LeaseOutlivesGeneration) => -900_000,
                _ => i64::from(random.below(801)) - 400,
            };
            let clock = LeaseClock::Runtime { started, drift_ppm };
            let store = RedisStore::for_lease_test(link, settings, Box::new(|_| {}), BEGAN_US * 1_000, clock, fault);
            // An instance without leases shares the keys.
            let lease = (random.below(5) > 0).then_some(generation);
            let options =
                LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Brief, lease, regional: false };
            let limit = store.limit("rule", quota, options).unwrap();
            Instance { store: Arc::new(store), limit, demand: 0, rest: 0, is_dead: false }
        });
        let instances: Vec<Instance> = instances.collect();
        let keys: Vec<Vec<u8>> = (0..=random.below(2)).map(|key| format!("user-{key}").into_bytes()).collect();
        let admissions = Arc::new(Mutex::new(keys.iter().map(|_| Admissions::default()).collect()));
        let observed = Arc::default();
        let (allowance, makes_refunds) = (0, true);
        LeaseScenario { world, random, instances, quota, keys, admissions, allowance, trouble, makes_refunds, observed }
    }

    async fn play(mut self) -> Result<LeaseCoverage, String> {
        // At least one window of a counter ends meanwhile.
        let ticks = if self.quota.kind() == AlgorithmKind::SlidingWindowCounter { 1_020 } else { 300 };
        for tick in 0..ticks {
            if tick % 20 == 0 {
                self.change_demand();
            }
            self.cause_trouble();
            let _ = self.request_all();
            sleep(TICK).await;
        }
        locked(&self.world).heal();
        self.check_bound()?;
        if self.random.below(12) == 0 {
            self.check_progress().await?;
        }
        self.check_bound()?;
        let mut coverage = self.observed.lock().unwrap().clone();
        coverage.stranded = self.instances.iter().map(|instance| instance.store.stats().stranded_tokens).sum();
        Ok(coverage)
    }

    fn change_demand(&mut self) {
        const ANY: [u64; 7] = [0, 0, 100, 400, 1_000, 3_000, 10_000];
        // A burst of all instances after little demand spends what was counted wrongly meanwhile.
        let together = [None, None, Some(0), Some(300), Some(20_000)][self.random.below(5) as usize];
        for instance in &mut self.instances {
            instance.demand = together.unwrap_or_else(|| ANY[self.random.below(7) as usize]);
        }
    }

    fn cause_trouble(&mut self) {
        if self.trouble == Trouble::None {
            return;
        }
        let draw = self.random.below(400);
        let instance = self.random.below(self.instances.len() as u32) as usize;
        let mut world = locked(&self.world);
        let mut observed = self.observed.lock().unwrap();
        let span = Duration::from_millis(20 + u64::from(self.random.below(600)));
        match draw {
            0..4 => world.partition(instance, 0, span),
            4..6 => {
                world.pause(instance, span);
                observed.pauses += 1;
            }
            // A crash: nothing is reported or returned.
            6 if self.instances.iter().filter(|instance| !instance.is_dead).count() > 1 => {
                self.instances[instance].is_dead = true;
                world.partition(instance, 0, Duration::from_secs(3_600));
                observed.crashes += 1;
            }
            7..9 if self.trouble == Trouble::Servers => {
                let step_ms = [-1_500, -300, -40, 40, 300, 1_500][self.random.below(6) as usize];
                world.step_clock(step_ms * 1_000);
                observed.steps += 1;
                if step_ms > 0 {
                    // What refills or begins anew in the time that did not pass, and what is leased.
                    self.allowance += 2 * self.capacity() + self.capacity() / 2;
                }
            }
            9..11 if self.trouble == Trouble::Servers => {
                world.fail_over(0);
                observed.failovers += 1;
                self.allowance += 2 * self.capacity() + self.capacity() / 2;
            }
            11..60 => world.replicate(),
            _ => {}
        }
    }

    fn capacity(&self) -> u64 {
        self.quota.burst().max(self.quota.amount())
    }

    /// Makes the requests of all instances in one tick. Returns their costs.
    fn request_all(&mut self) -> Vec<u64> {
        let mut costs = Vec::new();
        let period_us = self.quota.period_ns() / 1_000;
        let per_tick = self.quota.amount() * 1_000_000 * TICK.as_micros() as u64 / period_us;
        for index in 0..self.instances.len() {
            let is_stopped = self.instances[index].is_dead || locked(&self.world).is_paused(index);
            if is_stopped {
                continue;
            }
            let instance = &mut self.instances[index];
            instance.rest += per_tick * instance.demand / 1_000;
            let count = instance.rest / 1_000_000;
            instance.rest %= 1_000_000;
            for _ in 0..count {
                let key = self.random.below(self.keys.len() as u32) as usize;
                let cost = [1, 1, 1, 1, 1, 1, 2, 3][self.random.below(8) as usize];
                let refunds = self.makes_refunds && self.random.below(10) == 0;
                let refunds_after = refunds.then(|| u64::from(self.random.below(80)));
                self.request(index, key, cost, refunds_after);
                costs.push(cost);
            }
        }
        costs
    }

    fn request(&self, instance: usize, key_index: usize, cost: u64, refunds_after: Option<u64>) {
        let (store, limit) = (Arc::clone(&self.instances[instance].store), self.instances[instance].limit.clone());
        let (world, admissions) = (Arc::clone(&self.world), Arc::clone(&self.admissions));
        let (key, observed) = (self.keys[key_index].clone(), Arc::clone(&self.observed));
        tokio::spawn(async move {
            let charges = [Charge { receipt: true, ..Charge::new(&limit, &key, cost) }];
            let mut outcome = store.check_all(&charges).await;
            {
                let mut seen = observed.lock().unwrap();
                match (outcome.passed, outcome.source) {
                    (true, Source::Leased) => seen.leased += 1,
                    (true, _) => seen.exact += 1,
                    (false, Source::Leased) => seen.refused_by_lease += 1,
                    (false, _) => {}
                }
                seen.refunded += u64::from(outcome.passed && refunds_after.is_some());
            }
            let Some((_, receipt)) = outcome.receipts.pop() else { return };
            let at = {
                let world = locked(&world);
                match receipt_kind(&receipt) {
                    ReceiptKind::Server(charged) => world.true_us_at(charged.at).min(world.true_us()),
                    _ => world.true_us(),
                }
            };
            let position = {
                let mut admissions = admissions.lock().unwrap();
                admissions[key_index].0.push((at, cost));
                admissions[key_index].0.len() - 1
            };
            let Some(after) = refunds_after else { return };
            sleep(Duration::from_millis(after)).await;
            // Half of these requests cost one token less than estimated.
            let less = if after % 2 == 0 { cost } else { 1 };
            admissions.lock().unwrap()[key_index].0[position].1 -= less;
            if less == cost {
                store.refund(receipt);
            } else {
                let _ = store.settle(receipt, cost - less).await;
            }
        });
    }

    /// Checks the admissions of every key against the limit.
    fn check_bound(&self) -> Result<(), String> {
        for (key, admissions) in self.admissions.lock().unwrap().iter().enumerate() {
            let mut log: Vec<(u64, u64)> = admissions.0.iter().copied().filter(|(_, cost)| *cost > 0).collect();
            log.sort_unstable();
            let exceeded = match self.quota.kind() {
                AlgorithmKind::TokenBucket => exceeds_bucket(&log, &self.quota, self.allowance),
                _ => exceeds_windows(&log, &self.quota, self.allowance),
            };
            if let Some(what) = exceeded {
                return Err(format!("{EXCEEDED}: key {key} under {:?} with {:?}: {what}", self.quota, self.trouble));
            }
        }
        Ok(())
    }

    /// After all faults have healed and all leases of before have ended, demand for more than the limit must be
    /// admitted up to the limit.
    async fn check_progress(&mut self) -> Result<(), String> {
        const MEASURED_S: u64 = 5;
        sleep(Duration::from_millis(1_200)).await;
        self.keys.truncate(1);
        self.makes_refunds = false;
        self.instances.iter_mut().for_each(|instance| instance.demand = 3_000);
        // What the limit admits of the same requests, counted in one place.
        let mut single = SingleCounter::new(&self.quota);
        let mut from_us = 0;
        // By then no burst is left, and the windows before have passed.
        let warm = Duration::from_nanos(2 * self.quota.period_ns()).max(Duration::from_secs(3));
        let warm = (warm.as_millis() / TICK.as_millis()) as u64;
        for tick in 0..warm + MEASURED_S * 200 {
            if tick == warm {
                from_us = locked(&self.world).true_us();
                single.admitted = 0;
            }
            let requests = self.request_all();
            let now_us = locked(&self.world).now_us();
            requests.into_iter().for_each(|cost| single.request(now_us, cost));
            sleep(TICK).await;
        }
        let until_us = locked(&self.world).true_us();
        let log = self.admissions.lock().unwrap();
        let measured = log[0].0.iter().filter(|(at, _)| (from_us..until_us).contains(at));
        let admitted: u64 = measured.map(|(_, cost)| cost).sum();
        // Two tokens: a request with a cost of 3 may find two left.
        if (admitted + 2) * 100 < single.admitted * 99 {
            return Err(format!("{admitted} of {} admitted after recovery, {:?}", single.admitted, self.quota));
        }
        self.observed.lock().unwrap().recovered += 1;
        Ok(())
    }
}

/// One counter of the limit, without leases.
struct SingleCounter {
    rule: CompiledQuota,
    state: KeyState,
    admitted: u64,
}

impl SingleCounter {
    fn new(quota: &Quota) -> SingleCounter {
        let rule = CompiledQuota::new(quota, Tick::Microsecond);
        SingleCounter { state: KeyState::new(&rule), rule, admitted: 0 }
    }

    fn request(&mut self, now_us: u64, cost: u64) {
        let decision = match (&self.rule, &mut self.state) {
            (CompiledQuota::Bucket(rule), KeyState::Bucket(state)) => rule.check(state, now_us, cost),
            (CompiledQuota::FixedWindow(rule), KeyState::Window(state)) => rule.check(state, now_us, cost),
            (CompiledQuota::SlidingCounter(rule), KeyState::Counter(state)) => rule.check(state, now_us, cost),
            (CompiledQuota::SlidingLog(rule), KeyState::Log(state)) => rule.check(state, now_us, cost),
            _ => unreachable!("a state is of its quota's algorithm"),
        };
        self.admitted += if decision.is_allowed() { cost } else { 0 };
    }
}

/// Returns where admissions exceed a token bucket with `allowance` more tokens. Levels are in tokens times the period in
/// microseconds, so they are exact.
fn exceeds_bucket(log: &[(u64, u64)], quota: &Quota, allowance: u64) -> Option<String> {
    let period_us = i128::from(quota.period_ns() / 1_000);
    let full = i128::from(quota.burst()) * period_us;
    let (mut level, mut last) = (full, 0);
    let mut lowest = 0;
    for (at, cost) in log {
        level = full.min(level + i128::from(at - last) * i128::from(quota.amount()));
        level -= i128::from(*cost) * period_us;
        last = *at;
        lowest = lowest.min(level);
    }
    let over = (-lowest).div_euclid(period_us) + i128::from((-lowest).rem_euclid(period_us) > 0);
    (over > i128::from(allowance)).then(|| format!("{over} tokens over the bucket, allowed {allowance}"))
}

/// Returns where admissions exceed what the limit can admit in a span, or a fixed window its limit.
fn exceeds_windows(log: &[(u64, u64)], quota: &Quota, allowance: u64) -> Option<String> {
    if quota.kind() == AlgorithmKind::FixedWindow && allowance == 0 {
        let mut windows: HashMap<u64, u64> = HashMap::new();
        let period_us = quota.period_ns() / 1_000;
        log.iter().for_each(|(at, cost)| *windows.entry((BEGAN_US + at) / period_us).or_default() += cost);
        let worst = windows.into_values().max().unwrap_or(0);
        return (worst > quota.amount()).then(|| format!("{worst} in one window"));
    }
    for (first, (from, _)) in log.iter().enumerate() {
        let mut sum = 0;
        for (at, cost) in &log[first..] {
            sum += cost;
            let most = max_admitted(quota, (at - from) * 1_000 + 1).unwrap();
            if sum > most + allowance {
                return Some(format!("{sum} in {} us, at most {most}", at - from));
            }
        }
    }
    None
}
