//! The simulation of regions: several regions divide one limit under failures. An independent log of admissions is held
//! to the limit at every instant, and so is the sum of the rates that the regions enforce.

mod outages;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_core::{Quota, Rate};
use tollgate_store::{Charge, Limit, LimitOptions, OnFailure, Refusals, Store};

use super::InjectedFault;
use super::region_links::{HashWorld, SharedHashes, SimulatedExchange};
use super::world::{BEGAN_US, Link, SharedWorld, World, locked};
use crate::region_in_memory::RegionalMemoryStore;
use crate::regions::{ExchangeServer, RegionSettings};
use crate::store::random::Random;
use crate::store::{ReceiptKind, RedisStore, RedisStoreSettings, receipt_kind};
use crate::wire::RedisOptions;

/// The number of seeds of an ordinary run, in two halves so that two processors share them.
const SEEDS: u64 = 3_000;

/// The most seeds for an injected fault.
const FAULT_SEEDS: u64 = 600;

/// The beginning of the error for admissions over the limit, and for rates that are more than it in sum.
const EXCEEDED: &str = "limit exceeded";

const TICK: Duration = Duration::from_millis(20);
const EPOCH: Duration = Duration::from_secs(1);
const EPOCHS: u32 = 10;

const REGIONS: [&str; 5] = ["ap", "eu", "sa", "us", "za"];

#[test]
fn regions_never_admit_more_than_the_limit() {
    if let Some(seed) = std::env::var("TOLLGATE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        let result = run(seed, None);
        assert!(result.is_ok(), "seed {seed}: {result:?}");
        return;
    }
    let seeds = std::env::var("TOLLGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    check_seeds(0..seeds / 2);
}

#[test]
fn regions_never_admit_more_than_the_limit_in_other_seeds() {
    check_seeds(SEEDS / 2..SEEDS);
}

fn check_seeds(seeds: std::ops::Range<u64>) {
    let mut all = RegionCoverage::default();
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
fn region_runs_of_one_seed_are_identical() {
    for seed in 0..5 {
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
}

macro_rules! faults {
    ($($name:ident: $fault:ident),* $(,)?) => {
        $(#[test] fn $name() {
            let is_exceeded = |seed: u64| run(seed, Some(InjectedFault::$fault)).is_err_and(|what| what.contains(EXCEEDED));
            let found = (0..FAULT_SEEDS).any(is_exceeded);
            assert!(found, "{:?} was not detected", InjectedFault::$fault);
        })*
    };
}

faults! {
    loan_by_time_instead_of_by_epoch_is_detected: LoanByTime,
    share_that_is_taken_back_early_is_detected: EarlyReturn,
    loans_from_late_reports_are_detected: LateReports,
    offer_that_is_forgotten_in_a_restart_is_detected: ForgetOffer,
    start_of_a_region_in_memory_at_its_whole_share_is_detected: FullStart,
    larger_rate_at_the_edge_of_an_epoch_is_detected: LargerRateBetween,
    refill_at_the_present_rate_is_detected: RefillAtOneRate,
    weights_changed_in_one_region_are_detected: OwnWeights,
}

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RegionCoverage {
    admitted: u64,
    refused: u64,
    /// Requests that a region in memory admitted.
    in_memory: u64,
    borrowing: u64,
    lending: u64,
    crashes: u64,
    cuts: u64,
    regional_failovers: u64,
    global_failovers: u64,
    clock_steps: u64,
    weight_changes: u64,
    recovered: u64,
}

impl RegionCoverage {
    fn counts(&mut self) -> [&mut u64; 12] {
        let RegionCoverage { admitted, refused, in_memory, borrowing, lending, crashes, cuts, .. } = self;
        let RegionCoverage { regional_failovers, global_failovers, clock_steps, weight_changes, recovered, .. } = self;
        let [regional, global, steps] = [regional_failovers, global_failovers, clock_steps];
        [
            admitted,
            refused,
            in_memory,
            borrowing,
            lending,
            crashes,
            cuts,
            regional,
            global,
            steps,
            weight_changes,
            recovered,
        ]
    }

    fn add(&mut self, other: &RegionCoverage) {
        let mut other = other.clone();
        self.counts().into_iter().zip(other.counts()).for_each(|(sum, count)| *sum += *count);
    }

    fn is_complete(&mut self) -> bool {
        self.counts().into_iter().all(|count| *count > 0)
    }
}

/// Runs one seed. The error is the bound that was exceeded.
fn run(seed: u64, fault: Option<InjectedFault>) -> Result<RegionCoverage, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { RegionScenario::new(seed, fault).play().await })
}

/// The failures of a scenario, beside those of single calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegionTrouble {
    None,
    /// Partitions and crashes of instances.
    Instances,
    /// The same, and changes of the weights.
    Weights,
    /// The same, and failovers.
    Servers,
}

/// The admissions of one key: the time in microseconds since the start, and the cost.
type AdmissionLog = Vec<(u64, u64)>;

struct RegionScenario {
    random: Random,
    regions: Vec<SimulatedRegion>,
    hashes: SharedHashes,
    quota: Quota,
    keys: Vec<Vec<u8>>,
    weights: Vec<(String, u32)>,
    /// The admissions of each key.
    admissions: Arc<Mutex<Vec<AdmissionLog>>>,
    /// How many more tokens a key may admit because of failovers.
    allowance: u64,
    /// Until when the sum of the rates may be larger, because of a failover.
    rates_may_exceed_until: Instant,
    trouble: RegionTrouble,
    /// Whether all requests cost 1: no more than the burst of any region.
    costs_one: bool,
    fault: Option<InjectedFault>,
    coverage: RegionCoverage,
    refused: Arc<Mutex<u64>>,
    in_memory: Arc<Mutex<u64>>,
}

struct SimulatedRegion {
    world: SharedWorld,
    /// Whether its counters are in its one instance.
    is_in_memory: bool,
    instances: Vec<SimulatedInstance>,
    /// The demand for each key, in thousandths of the limit's rate.
    demand: Vec<u64>,
    /// Demand that did not make a whole request yet, in millionths of a token.
    rest: Vec<u64>,
}

struct SimulatedInstance {
    store: Arc<dyn SimulatedStore>,
    limit: Limit,
}

/// The store of an instance.
trait SimulatedStore: Store {
    /// Returns the rate at which a key is refilled now, in thousandths.
    fn refill_rate(&self, limit: &Limit, key: &[u8]) -> u32;

    /// Returns the share of the region, in thousandths.
    fn share(&self) -> Option<u32>;
}

impl SimulatedStore for RedisStore {
    fn refill_rate(&self, limit: &Limit, key: &[u8]) -> u32 {
        RedisStore::refill_rate(self, limit, key)
    }

    fn share(&self) -> Option<u32> {
        Some(self.inner.regions.as_ref()?.share(Instant::now())?.rate)
    }
}

impl SimulatedStore for RegionalMemoryStore {
    fn refill_rate(&self, limit: &Limit, key: &[u8]) -> u32 {
        RegionalMemoryStore::refill_rate(self, limit, key)
    }

    fn share(&self) -> Option<u32> {
        self.region_status().share
    }
}

impl RegionScenario {
    fn new(seed: u64, fault: Option<InjectedFault>) -> RegionScenario {
        let mut random = Random::new(seed ^ 0x2e61_0115);
        let trouble = [
            RegionTrouble::None,
            RegionTrouble::Instances,
            RegionTrouble::Instances,
            RegionTrouble::Weights,
            RegionTrouble::Servers,
        ][random.below(5) as usize];
        let count = 3 + random.below(3) as usize;
        let accepts_late_reports = fault == Some(InjectedFault::LateReports);
        let mut hashes = HashWorld::new(Random::new(random.next()), count, accepts_late_reports);
        if trouble != RegionTrouble::None {
            hashes.faults_per_mille = [0, 20, 100, 250][random.below(4) as usize];
        }
        let amount = u64::from(20 + random.below(80));
        let burst = u64::from(20 + random.below(100));
        let rate = Rate::new(amount, Duration::from_secs(1)).unwrap().with_burst(burst).unwrap();
        let quota = Quota::token_bucket(rate).unwrap();
        let weights = weights(&mut random, count);
        let keys: Vec<Vec<u8>> = (0..=random.below(2)).map(|key| format!("user-{key}").into_bytes()).collect();
        let mut scenario = RegionScenario {
            regions: Vec::new(),
            hashes: Arc::new(Mutex::new(hashes)),
            quota,
            admissions: Arc::new(Mutex::new(keys.iter().map(|_| Vec::new()).collect())),
            keys,
            weights,
            allowance: 0,
            rates_may_exceed_until: Instant::now(),
            trouble,
            costs_one: false,
            fault,
            coverage: RegionCoverage::default(),
            refused: Arc::default(),
            in_memory: Arc::default(),
            random,
        };
        for region in 0..count {
            let faults_per_mille =
                if trouble == RegionTrouble::None { 0 } else { [0, 20][scenario.random.below(2) as usize] };
            let world = World::new(Random::new(scenario.random.next()), 1, 1, faults_per_mille, fault);
            let (demand, rest) = (vec![0; scenario.keys.len()], vec![0; scenario.keys.len()]);
            let is_in_memory = scenario.random.below(4) == 0;
            scenario.regions.push(SimulatedRegion {
                world: Arc::new(Mutex::new(world)),
                is_in_memory,
                instances: Vec::new(),
                demand,
                rest,
            });
            let instances = if is_in_memory { 1 } else { 1 + scenario.random.below(2) as usize };
            for instance in 0..instances {
                let started = scenario.start_instance(region, instance);
                scenario.regions[region].instances.push(started);
            }
        }
        scenario
    }

    fn start_instance(&mut self, region: usize, instance: usize) -> SimulatedInstance {
        let SimulatedRegion { world, is_in_memory, .. } = &self.regions[region];
        let (world, is_in_memory) = (Arc::clone(world), *is_in_memory);
        let (seed, fault) = (self.random.next(), self.fault);
        let regions = RegionSettings {
            region: REGIONS[region].to_owned(),
            weights: self.weights.clone(),
            epoch: EPOCH,
            prefix: "g:".to_owned(),
            global: RedisOptions::standalone("127.0.0.1:1"),
        };
        let exchange = Arc::new(SimulatedExchange { hashes: Arc::clone(&self.hashes), region, instance });
        let store: Arc<dyn SimulatedStore> = if is_in_memory {
            Arc::new(RegionalMemoryStore::for_test(exchange, regions, seed, fault))
        } else {
            let settings = RedisStoreSettings { seed, regions: Some(regions), ..RedisStoreSettings::default() };
            let link = Link { world, instance };
            Arc::new(RedisStore::for_region_test(link, settings, BEGAN_US * 1_000, exchange, fault))
        };
        let options =
            LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Brief, lease: None, regional: true };
        let limit = store.limit("rule", self.quota, options).unwrap();
        SimulatedInstance { store, limit }
    }

    async fn play(mut self) -> Result<RegionCoverage, String> {
        let ticks = EPOCH.as_millis() as u32 * EPOCHS / TICK.as_millis() as u32;
        for tick in 0..ticks {
            if tick % 25 == 0 {
                self.change_demand();
            }
            self.cause_trouble();
            if tick % 3 == 0 {
                self.check_rates()?;
            }
            self.request_all();
            sleep(TICK).await;
        }
        self.check_bound()?;
        if self.random.below(12) == 0 {
            self.check_progress().await?;
            self.check_bound()?;
        }
        self.coverage.refused = *self.refused.lock().unwrap();
        self.coverage.in_memory = *self.in_memory.lock().unwrap();
        self.coverage.admitted = self.admissions.lock().unwrap().iter().map(|log| log.len() as u64).sum();
        Ok(self.coverage)
    }

    fn change_demand(&mut self) {
        const ANY: [u64; 7] = [0, 0, 50, 200, 600, 1_000, 2_000];
        let together = [None, None, None, Some(0), Some(4_000)][self.random.below(5) as usize];
        for region in &mut self.regions {
            for demand in &mut region.demand {
                *demand = together.unwrap_or_else(|| ANY[self.random.below(7) as usize]);
            }
        }
    }

    fn cause_trouble(&mut self) {
        if self.trouble == RegionTrouble::None {
            return;
        }
        let draw = self.random.below(300);
        let region = self.random.below(self.regions.len() as u32) as usize;
        let instance = self.random.below(self.regions[region].instances.len() as u32) as usize;
        let span = Duration::from_millis(50 + u64::from(self.random.below(3_000)));
        match draw {
            0..2 => {
                self.hashes.lock().unwrap().cut(region, None, ExchangeServer::Global, span);
                self.coverage.cuts += 1;
            }
            2 => self.hashes.lock().unwrap().cut(region, Some(instance), ExchangeServer::Regional, span),
            // A crash. Another instance starts.
            3..6 => self.restart(region, instance),
            // A change of the weights: the new ones come with restarts, one instance after the other.
            6..8 if self.trouble != RegionTrouble::Instances => {
                if draw == 6 {
                    self.weights = weights(&mut self.random, self.regions.len());
                    // The part of the burst that moves to another region may be used in both, once.
                    self.allowance += self.quota.burst();
                }
                self.restart(region, instance);
                self.coverage.weight_changes += 1;
            }
            8 if self.trouble == RegionTrouble::Servers => {
                locked(&self.regions[region].world).fail_over(0);
                self.allowance += self.quota.burst();
                self.coverage.regional_failovers += 1;
            }
            9 if self.trouble == RegionTrouble::Servers => {
                self.hashes.lock().unwrap().fail_over_global();
                // Reports may be lost that some regions have read: the same offers may be lent twice, in one epoch.
                self.allowance += self.quota.amount() * EPOCH.as_millis() as u64 / 1_000;
                self.rates_may_exceed_until = Instant::now() + 6 * EPOCH;
                self.coverage.global_failovers += 1;
            }
            10 if self.trouble == RegionTrouble::Servers => {
                let by_ms = [-3_000, -400, 400, 3_000][self.random.below(4) as usize];
                self.hashes.lock().unwrap().step_global_clock(by_ms * 1_000);
                self.allowance += self.quota.amount() * EPOCH.as_millis() as u64 / 1_000;
                self.rates_may_exceed_until = Instant::now() + 6 * EPOCH;
                self.coverage.clock_steps += 1;
            }
            11..40 => {
                self.hashes.lock().unwrap().replicate_global();
                self.regions.iter().for_each(|region| locked(&region.world).replicate());
            }
            _ => {}
        }
    }

    fn restart(&mut self, region: usize, instance: usize) {
        self.regions[region].instances[instance] = self.start_instance(region, instance);
        // The counters are lost, so the burst of the region can be used once more.
        self.allowance += if self.regions[region].is_in_memory { self.quota.burst() } else { 0 };
        self.coverage.crashes += 1;
    }

    /// Checks that the regions enforce no more than the whole rate of any key.
    fn check_rates(&mut self) -> Result<(), String> {
        for key in &self.keys {
            let rates: Vec<u32> = self.regions.iter().map(|region| region.enforced_rate(key)).collect();
            for (region, rate) in self.regions.iter().zip(&rates) {
                let share = region.instances.iter().filter_map(|instance| instance.share()).max().unwrap_or(0);
                self.coverage.borrowing += u64::from(*rate > share);
                self.coverage.lending += u64::from(*rate < share);
            }
            if rates.iter().sum::<u32>() > 1_000 && Instant::now() > self.rates_may_exceed_until {
                return Err(format!("{EXCEEDED}: rates {rates:?} with {:?}", self.trouble));
            }
        }
        Ok(())
    }

    fn request_all(&mut self) {
        let per_tick = self.quota.amount() * TICK.as_micros() as u64;
        for region in 0..self.regions.len() {
            for key in 0..self.keys.len() {
                let SimulatedRegion { demand, rest, .. } = &mut self.regions[region];
                rest[key] += per_tick * demand[key] / 1_000;
                let count = rest[key] / 1_000_000;
                rest[key] %= 1_000_000;
                for _ in 0..count {
                    let instance = self.random.below(self.regions[region].instances.len() as u32) as usize;
                    let cost = if self.costs_one { 1 } else { [1, 1, 1, 1, 1, 2, 3][self.random.below(7) as usize] };
                    self.request(region, instance, key, cost);
                }
            }
        }
    }

    fn request(&self, region: usize, instance: usize, key: usize, cost: u64) {
        let SimulatedRegion { world, instances, is_in_memory, .. } = &self.regions[region];
        let SimulatedInstance { store, limit } = &instances[instance];
        let (store, limit, world) = (Arc::clone(store), limit.clone(), Arc::clone(world));
        let (admissions, refused, name) =
            (Arc::clone(&self.admissions), Arc::clone(&self.refused), self.keys[key].clone());
        let in_memory = is_in_memory.then(|| Arc::clone(&self.in_memory));
        tokio::spawn(async move {
            let charges = [Charge { receipt: true, ..Charge::new(&limit, &name, cost) }];
            let mut outcome = store.check_all(&charges).await;
            let Some((_, receipt)) = outcome.receipts.pop() else {
                *refused.lock().unwrap() += 1;
                return;
            };
            let world = locked(&world);
            let at = match in_memory {
                Some(admitted) => {
                    *admitted.lock().unwrap() += 1;
                    world.true_us()
                }
                None => match receipt_kind(&receipt) {
                    ReceiptKind::Server(charged) => world.true_us_at(charged.at).min(world.true_us()),
                    _ => world.true_us(),
                },
            };
            admissions.lock().unwrap()[key].push((at, cost));
        });
    }

    /// After all faults have healed, one busy region must get nearly the whole rate: what the others do not need but
    /// their reserves.
    async fn check_progress(&mut self) -> Result<(), String> {
        const MEASURED: u32 = 6;
        self.hashes.lock().unwrap().heal();
        self.regions.iter().for_each(|region| locked(&region.world).heal());
        self.keys.truncate(1);
        self.costs_one = true;
        self.regions.iter_mut().for_each(|region| region.demand = vec![0]);
        // Requests arrive several at a time, so a burst of one token would lose most of what is refilled.
        let busy = (0..self.regions.len()).max_by_key(|region| self.regions[*region].instances[0].share()).unwrap_or(0);
        self.regions[busy].demand = vec![3_000];
        let ticks = |epochs: u32| epochs * EPOCH.as_millis() as u32 / TICK.as_millis() as u32;
        let mut from_us = 0;
        for tick in 0..ticks(6 + MEASURED) {
            if tick == ticks(6) {
                from_us = locked(&self.regions[busy].world).true_us();
            }
            self.request_all();
            sleep(TICK).await;
        }
        let until_us = locked(&self.regions[busy].world).true_us();
        let log = self.admissions.lock().unwrap();
        let admitted: u64 =
            log[0].iter().filter(|(at, _)| (from_us..until_us).contains(at)).map(|(_, cost)| cost).sum();
        // While some regions have not voted for new weights yet, each has the smaller of two shares.
        let shares: u32 = self.regions.iter().filter_map(|region| region.instances[0].share()).sum();
        let whole = self.quota.amount() * u64::from(MEASURED) * u64::from(shares) / 1_000;
        if admitted * 100 < whole * 80 {
            return Err(format!("{admitted} of {whole} admitted in one busy region, {:?}", self.trouble));
        }
        self.coverage.recovered += 1;
        Ok(())
    }

    /// Checks the admissions of every key against the limit, as one bucket of all regions.
    fn check_bound(&self) -> Result<(), String> {
        let amount = i128::from(self.quota.amount());
        let full = i128::from(self.quota.burst()) * 1_000_000;
        for (key, log) in self.admissions.lock().unwrap().iter_mut().enumerate() {
            log.sort_unstable();
            let (mut level, mut last, mut lowest) = (full, 0, 0);
            for (at, cost) in log {
                level = full.min(level + i128::from(*at - last) * amount) - i128::from(*cost) * 1_000_000;
                (last, lowest) = (*at, lowest.min(level));
            }
            let over = (-lowest + 999_999) / 1_000_000;
            if over > i128::from(self.allowance) {
                let Self { quota, trouble, allowance, .. } = self;
                return Err(format!(
                    "{EXCEEDED}: key {key}: {over} tokens over {quota:?}, {allowance} allowed, {trouble:?}"
                ));
            }
        }
        Ok(())
    }
}

impl SimulatedRegion {
    /// Returns the largest rate that an instance would refill a key with now.
    fn enforced_rate(&self, key: &[u8]) -> u32 {
        self.instances.iter().map(|instance| instance.store.refill_rate(&instance.limit, key)).max().unwrap_or(0)
    }
}

impl SimulatedInstance {
    fn share(&self) -> Option<u32> {
        self.store.share()
    }
}

fn weights(random: &mut Random, count: usize) -> Vec<(String, u32)> {
    REGIONS[..count].iter().map(|name| ((*name).to_owned(), 10 + random.below(60))).collect()
}
