//! The scenario of one seed: instances, limits, requests and failures.

mod caller;
mod follow_up;
pub(in crate::sim) mod ledger;
pub(in crate::sim) mod observations;
mod plan;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;
use tollgate_store::{Capacity, Charge, Limit, MemoryOptions, Source, Store, WhenFull};

use self::caller::Caller;
use self::observations::{Coverage, Observations};
use self::plan::{Plan, SimRule, key_bytes};
use super::injected_fault::{self, InjectedFault};
use crate::sim::world::{BEGAN_US, Link, SharedWorld, World, locked};
use crate::store::random::Random;
use crate::store::{BreakerSettings, BreakerState, RedisStore, RedisStoreSettings};

/// Runs one seed. The error is the invariant that was violated.
pub(in crate::sim) fn run(seed: u64, fault: Option<InjectedFault>) -> Result<Coverage, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { Scenario::new(seed, fault).play().await })
}

struct Scenario {
    world: SharedWorld,
    random: Random,
    stores: Arc<Vec<RedisStore>>,
    /// The same limits for each instance.
    limits: Arc<Vec<Vec<Limit>>>,
    rules: Arc<Vec<SimRule>>,
    keys: u32,
    settings: RedisStoreSettings,
    is_quiet: bool,
    observations: Arc<Mutex<Observations>>,
}

impl Scenario {
    fn new(seed: u64, fault: Option<InjectedFault>) -> Scenario {
        let mut random = Random::new(seed);
        let shards = 1 + random.below(3) as usize;
        let slots = (shards as u32 * (1 + random.below(2))) as u16;
        let faults_per_mille = [0, 20, 60, 250][random.below(4) as usize];
        let is_quiet = faults_per_mille == 0;
        let world = World::new(Random::new(random.next()), shards, slots, faults_per_mille, fault);
        let settings = RedisStoreSettings {
            coalesces_checks: random.below(4) > 0,
            caches_refusals: random.below(4) > 0,
            resends: 2,
            fallback: MemoryOptions { capacity: Capacity::Entries(256), when_full: WhenFull::default() },
            breaker: BreakerSettings {
                failures_in_a_row: 3,
                window: Duration::from_millis(500),
                calls_at_least: 10,
                first_pause: Duration::from_millis(20),
                longest_pause: Duration::from_millis(300),
                trials: 2,
                trial_patience: Duration::from_millis(100),
                ..BreakerSettings::default()
            },
            ..RedisStoreSettings::default()
        };
        let world: SharedWorld = Arc::new(Mutex::new(world));
        locked(&world).ledger.resends = settings.resends;
        let rules: Vec<SimRule> = (0..4).map(|number| SimRule::drawn(number, &mut random)).collect();
        let instances = 2 + random.below(3) as usize;
        let stores: Vec<_> = (0..instances)
            .map(|instance| {
                let link = Link { world: Arc::clone(&world), instance };
                let settings =
                    RedisStoreSettings { seed: random.next(), ..injected_fault::settings(fault, settings.clone()) };
                RedisStore::for_test(link, settings, Box::new(|_| {}), BEGAN_US * 1_000, fault)
            })
            .collect();
        let limit = |store: &RedisStore, rule: &SimRule| {
            store.limit(&rule.scope, rule.quota, injected_fault::options(fault, rule.options)).unwrap()
        };
        let limits: Vec<Vec<Limit>> =
            stores.iter().map(|store| rules.iter().map(|rule| limit(store, rule)).collect()).collect();
        let (limits, stores) = (Arc::new(limits), Arc::new(stores));
        let keys = 1 + random.below(4);
        let (rules, observations) = (Arc::new(rules), Arc::default());
        Scenario { world, random, stores, limits, rules, keys, settings, is_quiet, observations }
    }

    async fn play(mut self) -> Result<Coverage, String> {
        let mut requests = Vec::new();
        let count = 60 + u64::from(self.random.below(120));
        for arrival in 0..count {
            self.inject_failure();
            let plan = Plan::drawn(arrival, self.stores.len(), self.keys, &mut self.random);
            let burst = if self.random.below(5) == 0 { 2 + self.random.below(5) } else { 1 };
            for nth in 0..burst {
                let plan = Plan { arrival: arrival * 100 + u64::from(nth), ..plan.clone() };
                requests.push(tokio::spawn(self.caller().request(plan)));
            }
            let pause = [0, 0, 1, 1, 2, 3, 5, 30][self.random.below(8) as usize];
            if pause > 0 {
                sleep(Duration::from_millis(pause)).await;
            }
            if let Some(violation) = locked(&self.world).ledger.violation() {
                return Err(violation);
            }
        }
        for request in requests {
            request.await.map_err(|error| error.to_string())?;
        }
        locked(&self.world).heal();
        sleep(Duration::from_secs(4)).await;
        self.check_recovery().await;
        sleep(Duration::from_secs(2)).await;
        self.close()
    }

    /// Injects a failure of the servers or of the network, sometimes.
    fn inject_failure(&mut self) {
        if self.is_quiet {
            return;
        }
        let mut world = locked(&self.world);
        let shard = self.random.below(world.shards() as u32) as usize;
        match self.random.below(200) {
            0 => world.restart(shard),
            1 => world.fail_over(shard),
            2..6 => {
                let instance = self.random.below(self.stores.len() as u32) as usize;
                world.partition(instance, shard, Duration::from_millis(20 + u64::from(self.random.below(400))));
            }
            6 => {
                (0..self.stores.len())
                    .for_each(|instance| world.partition(instance, shard, Duration::from_millis(200)));
            }
            7..40 => world.replicate(),
            _ => {}
        }
    }

    fn caller(&self) -> Caller {
        Caller {
            world: Arc::clone(&self.world),
            stores: Arc::clone(&self.stores),
            limits: Arc::clone(&self.limits),
            rules: Arc::clone(&self.rules),
            deadline: self.settings.deadline,
            is_quiet: self.is_quiet,
            observations: Arc::clone(&self.observations),
        }
    }

    /// Checks that every instance uses the servers again after all failures have ended.
    async fn check_recovery(&mut self) {
        for (instance, store) in self.stores.iter().enumerate() {
            for turn in 0..8 {
                for key in 0..self.keys {
                    let (limit, key) = (&self.limits[instance][0], key_bytes(key));
                    let charge = Charge::new(limit, &key, 0);
                    let source = store.check_all(&[charge]).await.source;
                    if turn == 7 && source != Source::Exact {
                        locked(&self.world).ledger.violate(format!("{instance} still answers {source:?} for {key:?}"));
                    }
                }
            }
            let stats = store.stats();
            // A half-open breaker without calls stays half-open, and admits the next call.
            if stats.breakers.iter().any(|(_, state)| *state == BreakerState::Open) {
                locked(&self.world).ledger.violate(format!("{instance} has an open breaker: {:?}", stats.breakers));
            }
        }
    }

    fn close(self) -> Result<Coverage, String> {
        let mut world = locked(&self.world);
        world.ledger.check_refunds();
        let uncertain: u64 = self.stores.iter().map(|store| store.stats().uncertain_charges).sum();
        world.ledger.check_uncertain(uncertain);
        let mut observations = self.observations.lock().unwrap();
        if self.settings.coalesces_checks {
            observations.check_order(&mut world);
        }
        observations.check_counted_locally(&mut world, &self.rules);
        observations.check_bounds(&mut world, &self.rules);
        if let Some(violation) = world.ledger.violation() {
            return Err(violation);
        }
        let mut coverage = observations.coverage;
        for store in self.stores.iter() {
            let stats = store.stats();
            coverage.joined += stats.joined;
            coverage.refunds += stats.refunds;
            coverage.opened += stats.breakers_opened;
        }
        Ok(coverage)
    }
}
