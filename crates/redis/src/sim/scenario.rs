//! One seed's story: instances, limits, requests, troubles, and what was seen of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::{AlgorithmKind, Charged, Decision, Quota, most_admitted};
use tollgate_store::{
    Capacity, KeyedCharge, LimitOptions, MemoryOptions, Mode, OnFailure, Outcome, Refusals, Source, Store, WhenFull,
};

use super::world::{BEGAN_US, Link, SharedWorld, World, locked};
use crate::store::planted::Planted;
use crate::store::random::Random;
use crate::store::{BreakerSettings, BreakerState, RedisLimit, RedisReceipt, SeenReceipt, SharedStore, StoreSettings};

/// What a run of many seeds met, so that it is known that it met something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) passed: u64,
    pub(super) refused: u64,
    pub(super) cached: u64,
    pub(super) fallbacks: u64,
    pub(super) joined: u64,
    pub(super) refunds: u64,
    pub(super) opened: u64,
    pub(super) dropped: u64,
    /// Keys whose admissions were held to the bound of their algorithm.
    pub(super) bounded: u64,
}

impl Met {
    pub(super) fn add(&mut self, other: &Met) {
        self.passed += other.passed;
        self.refused += other.refused;
        self.cached += other.cached;
        self.fallbacks += other.fallbacks;
        self.joined += other.joined;
        self.refunds += other.refunds;
        self.opened += other.opened;
        self.dropped += other.dropped;
        self.bounded += other.bounded;
    }

    pub(super) fn has_met_everything(&self) -> bool {
        let Met { passed, refused, cached, fallbacks, joined, refunds, opened, dropped, bounded } = *self;
        [passed, refused, cached, fallbacks, joined, refunds, opened, dropped, bounded].iter().all(|count| *count > 0)
    }
}

/// Runs one seed. The error says what must not have happened.
pub(super) fn run(seed: u64, planted: Option<Planted>) -> Result<Met, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { Scenario::new(seed, planted).play().await })
}

struct Scenario {
    world: SharedWorld,
    random: Random,
    stores: Arc<Vec<SharedStore<Link>>>,
    /// The same limits for each instance.
    limits: Arc<Vec<Vec<RedisLimit>>>,
    rules: Arc<Vec<Rule>>,
    keys: u32,
    settings: StoreSettings,
    is_quiet: bool,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Clone, Debug)]
struct Rule {
    scope: String,
    quota: Quota,
    options: LimitOptions,
}

/// A key's name on the servers.
type Key = Arc<[u8]>;

/// Pairs that are brought into the order of time.
type Times = Vec<(u64, u64)>;

/// What callers saw.
#[derive(Default)]
struct Seen {
    met: Met,
    /// Permits that callers hold, by key.
    held: HashMap<Key, Vec<(usize, Charged)>>,
    /// Ids of leases in the order of arrival, by what was asked.
    order: HashMap<(usize, Key, u64, bool), Times>,
    /// What servers let pass, by key: when, and how much.
    admitted: HashMap<Key, (usize, Times)>,
    /// What passed on an instance's own count, by key, less what was given back.
    counted_here: HashMap<(usize, Key), (usize, i64)>,
}

/// A request, drawn before it is made.
#[derive(Clone, Debug)]
struct Plan {
    arrival: u64,
    instance: usize,
    charges: SmallVec<[(usize, u32, u64, Mode); 3]>,
    /// The caller goes away after this.
    gives_up: Option<Duration>,
    afterwards: Afterwards,
}

#[derive(Clone, Copy, Debug)]
enum Afterwards {
    Keep,
    GiveBack(Duration),
    Settle(Duration, u64),
    Renew(Duration, Duration),
}

impl Scenario {
    fn new(seed: u64, planted: Option<Planted>) -> Scenario {
        let mut random = Random::new(seed);
        let shards = 1 + random.below(3) as usize;
        let slots = (shards as u32 * (1 + random.below(2))) as u16;
        let faults_per_mille = [0, 20, 60, 250][random.below(4) as usize];
        let is_quiet = faults_per_mille == 0;
        let world = World::new(Random::new(random.next()), shards, slots, faults_per_mille);
        let settings = StoreSettings {
            joins: random.below(4) > 0,
            remembers_refusals: random.below(4) > 0,
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
            ..StoreSettings::default()
        };
        let world: SharedWorld = Arc::new(Mutex::new(world));
        locked(&world).books.resends = settings.resends;
        let rules: Vec<Rule> = (0..4).map(|number| Rule::drawn(number, &mut random)).collect();
        let instances = 2 + random.below(3) as usize;
        let stores: Vec<_> = (0..instances)
            .map(|instance| {
                let link = Link { world: Arc::clone(&world), instance };
                let settings = StoreSettings { seed: random.next(), ..settings.clone() };
                SharedStore::for_test(link, settings, Box::new(|_| {}), BEGAN_US * 1_000, planted)
            })
            .collect();
        let limit =
            |store: &SharedStore<Link>, rule: &Rule| store.limit(&rule.scope, rule.quota, rule.options).unwrap();
        let limits: Vec<Vec<RedisLimit>> =
            stores.iter().map(|store| rules.iter().map(|rule| limit(store, rule)).collect()).collect();
        let (limits, stores) = (Arc::new(limits), Arc::new(stores));
        let keys = 1 + random.below(4);
        let (rules, seen) = (Arc::new(rules), Arc::default());
        Scenario { world, random, stores, limits, rules, keys, settings, is_quiet, seen }
    }

    async fn play(mut self) -> Result<Met, String> {
        let mut requests = Vec::new();
        let count = 60 + u64::from(self.random.below(120));
        for arrival in 0..count {
            self.trouble();
            let plan = self.draw(arrival);
            let together = if self.random.below(5) == 0 { 2 + self.random.below(5) } else { 1 };
            for nth in 0..together {
                let plan = Plan { arrival: arrival * 100 + u64::from(nth), ..plan.clone() };
                requests.push(tokio::spawn(self.caller().request(plan)));
            }
            let pause = [0, 0, 1, 1, 2, 3, 5, 30][self.random.below(8) as usize];
            if pause > 0 {
                sleep(Duration::from_millis(pause)).await;
            }
            if let Some(violation) = locked(&self.world).books.violation() {
                return Err(violation);
            }
        }
        for request in requests {
            request.await.map_err(|error| error.to_string())?;
        }
        locked(&self.world).heal();
        sleep(Duration::from_secs(4)).await;
        self.service_is_back().await;
        sleep(Duration::from_secs(2)).await;
        self.close()
    }

    /// Something happens to the servers, or to the way there.
    fn trouble(&mut self) {
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
                world.part(instance, shard, Duration::from_millis(20 + u64::from(self.random.below(400))));
            }
            6 => (0..self.stores.len()).for_each(|instance| world.part(instance, shard, Duration::from_millis(200))),
            7..40 => world.replicate(),
            _ => {}
        }
    }

    fn draw(&mut self, arrival: u64) -> Plan {
        let random = &mut self.random;
        let count = [1, 1, 1, 2, 2, 3][random.below(6) as usize];
        let mut charges: SmallVec<[(usize, u32, u64, Mode); 3]> = SmallVec::new();
        for _ in 0..count {
            let mode = match random.below(12) {
                0 => Mode::Shadow,
                1 => Mode::Guard,
                2 => Mode::Watch,
                _ => Mode::Enforce,
            };
            let cost = [0, 1, 1, 1, 1, 2, 2, 3, 30][random.below(9) as usize];
            charges.push((random.below(4) as usize, random.below(self.keys), cost, mode));
        }
        let ms = |milliseconds: u32| Duration::from_millis(u64::from(milliseconds));
        let afterwards = match random.below(6) {
            0 | 1 => Afterwards::GiveBack(ms(random.below(60))),
            2 => Afterwards::Settle(ms(random.below(60)), u64::from(random.below(5))),
            3 => Afterwards::Renew(ms(random.below(150)), ms(random.below(150))),
            _ => Afterwards::Keep,
        };
        Plan {
            arrival,
            instance: random.below(self.stores.len() as u32) as usize,
            charges,
            gives_up: (random.below(12) == 0).then(|| ms(random.below(12))),
            afterwards,
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
            seen: Arc::clone(&self.seen),
        }
    }

    /// Once trouble is over, every instance asks the servers again.
    async fn service_is_back(&mut self) {
        for (instance, store) in self.stores.iter().enumerate() {
            for turn in 0..8 {
                for key in 0..self.keys {
                    let (limit, key) = (&self.limits[instance][0], key_bytes(key));
                    let asked = KeyedCharge { limit, key: &key, cost: 0, mode: Mode::Enforce, receipt: false };
                    let source = store.decide(&[asked]).await.source;
                    if turn == 7 && source != Source::Exact {
                        locked(&self.world).books.violate(format!("{instance} still answers {source:?} for {key:?}"));
                    }
                }
            }
            let stats = store.stats();
            // A shard that nobody asks stays as it was; it is asked as soon as somebody does.
            if stats.breakers.iter().any(|(_, state)| *state == BreakerState::Open) {
                locked(&self.world).books.violate(format!("{instance} has an open breaker: {:?}", stats.breakers));
            }
        }
    }

    fn close(self) -> Result<Met, String> {
        let mut world = locked(&self.world);
        world.books.close();
        let mut seen = self.seen.lock().unwrap();
        self.check_order(&mut world, &seen);
        self.check_counted_here(&mut world, &seen);
        self.check_bounds(&mut world, &mut seen);
        if let Some(violation) = world.books.violation() {
            return Err(violation);
        }
        let mut met = seen.met;
        for store in self.stores.iter() {
            let stats = store.stats();
            met.joined += stats.joined;
            met.refunds += stats.refunds;
            met.opened += stats.breakers_opened;
        }
        Ok(met)
    }

    /// Of those who ask the same, who comes first is answered first.
    fn check_order(&self, world: &mut World, seen: &Seen) {
        if !self.settings.joins {
            return;
        }
        for ((instance, key, ..), answers) in &seen.order {
            let mut in_order = answers.clone();
            in_order.sort_unstable();
            if !in_order.is_sorted_by_key(|(_, id)| *id) {
                let key = String::from_utf8_lossy(key);
                world.books.violate(format!("{instance} was answered out of order for {key}: {in_order:?}"));
            }
        }
    }

    /// An instance alone lets no more pass than its share.
    fn check_counted_here(&self, world: &mut World, seen: &Seen) {
        let span_ns = (world.now_us() - BEGAN_US) * 1_000;
        for ((instance, key), (rule, counted)) in &seen.counted_here {
            let OnFailure::Local { share } = self.rules[*rule].options.on_failure else { continue };
            let most = most_admitted(&self.rules[*rule].quota.share(share), span_ns);
            if most.is_some_and(|most| *counted > i64::try_from(most).unwrap_or(i64::MAX)) {
                let key = String::from_utf8_lossy(key);
                world.books.violate(format!("{instance} let {counted} pass alone for {key}, at most {most:?} may"));
            }
        }
    }

    /// Where nothing was given back or lost, servers let no more pass in any span than the algorithm promises.
    fn check_bounds(&self, world: &mut World, seen: &mut Seen) {
        for (key, (rule, admitted)) in &mut seen.admitted {
            let quota = &self.rules[*rule].quota;
            if world.books.is_loosened(key) || quota.kind() == AlgorithmKind::Concurrency {
                continue;
            }
            seen.met.bounded += 1;
            admitted.sort_unstable();
            for (from, (began, _)) in admitted.iter().enumerate() {
                let mut passed = 0;
                for (at, cost) in &admitted[from..] {
                    passed += cost;
                    let most = most_admitted(quota, (at - began) * 1_000 + 1);
                    if most.is_some_and(|most| passed > most) {
                        let key = String::from_utf8_lossy(key);
                        world.books.violate(format!("{passed} passed for {key}, at most {most:?} may"));
                    }
                }
            }
        }
    }
}

impl Rule {
    fn drawn(number: u32, random: &mut Random) -> Rule {
        let amount = 1 + u64::from(random.below(8));
        let period = Duration::from_millis([50, 200, 500, 1_000, 3_000][random.below(5) as usize]);
        let rate = tollgate_core::Rate::new(amount, period).unwrap();
        let quota = match random.below(7) {
            0 | 1 => Quota::token_bucket(rate.with_burst(1 + u64::from(random.below(10))).unwrap()),
            2 => Quota::fixed_window(rate),
            3 => Quota::sliding_window_counter(rate),
            4 => Quota::sliding_window_log(rate),
            _ => Quota::concurrency(amount, Some(Duration::from_millis(100 + u64::from(random.below(400))))),
        };
        let on_failure = match random.below(4) {
            0 => OnFailure::Open,
            1 => OnFailure::Closed,
            _ => OnFailure::Local { share: (1, 1 + random.below(4)) },
        };
        let refusals = [Refusals::Counted, Refusals::Brief, Refusals::Brief, Refusals::Final][random.below(4) as usize];
        Rule { scope: format!("rule-{number}"), quota: quota.unwrap(), options: LimitOptions { on_failure, refusals } }
    }
}

fn key_bytes(key: u32) -> Vec<u8> {
    format!("user-{key}").into_bytes()
}

/// Somebody who makes requests and checks what comes of them.
struct Caller {
    world: SharedWorld,
    stores: Arc<Vec<SharedStore<Link>>>,
    limits: Arc<Vec<Vec<RedisLimit>>>,
    rules: Arc<Vec<Rule>>,
    deadline: Duration,
    is_quiet: bool,
    seen: Arc<Mutex<Seen>>,
}

impl Caller {
    async fn request(self, plan: Plan) {
        let keys: Vec<Vec<u8>> = plan.charges.iter().map(|charge| key_bytes(charge.1)).collect();
        let limits = &self.limits[plan.instance];
        let charges: Vec<KeyedCharge<'_, RedisLimit>> = plan
            .charges
            .iter()
            .zip(&keys)
            .map(|((rule, _, cost, mode), key)| KeyedCharge {
                limit: &limits[*rule],
                key,
                cost: *cost,
                mode: *mode,
                receipt: true,
            })
            .collect();
        for asked in &charges {
            let (_, target) = self.stores[plan.instance].target(asked.limit, asked.key);
            locked(&self.world).books.know(&target.key);
        }
        let began = Instant::now();
        let decided = self.stores[plan.instance].decide(&charges);
        let outcome = match plan.gives_up {
            Some(patience) => match timeout(patience, decided).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    self.seen.lock().unwrap().met.dropped += 1;
                    return;
                }
            },
            None => decided.await,
        };
        // Timers of the runtime are a millisecond apart.
        if began.elapsed() > self.deadline + Duration::from_millis(2) {
            self.violate(format!("a check took {:?}", began.elapsed()));
        }
        self.count(&outcome);
        if outcome.decisions.len() != charges.len() {
            return self.violate(format!("{} charges, {} answers", charges.len(), outcome.decisions.len()));
        }
        if self.is_quiet && outcome.source == Source::Fallback {
            self.violate("a fallback without any trouble".into());
        }
        if !outcome.passed {
            return self.check_refusal(&plan, &charges, &outcome);
        }
        self.check_passed(&plan, &charges, &outcome);
        self.afterwards(&plan, outcome.receipts).await;
    }

    fn violate(&self, what: String) {
        locked(&self.world).books.violate(what);
    }

    fn count(&self, outcome: &Outcome<RedisReceipt>) {
        let met = &mut self.seen.lock().unwrap().met;
        met.passed += u64::from(outcome.passed);
        met.refused += u64::from(!outcome.passed);
        met.cached += u64::from(outcome.source == Source::Cached);
        met.fallbacks += u64::from(outcome.source == Source::Fallback);
    }

    fn check_refusal(&self, plan: &Plan, charges: &[KeyedCharge<'_, RedisLimit>], outcome: &Outcome<RedisReceipt>) {
        if !outcome.receipts.is_empty() {
            self.violate("a refused request has receipts".into());
        }
        let binding = |asked: &KeyedCharge<'_, RedisLimit>| matches!(asked.mode, Mode::Enforce | Mode::Guard);
        let refuses =
            |at: &usize| outcome.asked.contains(*at) && binding(&charges[*at]) && !outcome.decisions[*at].is_allowed();
        let refusing: Vec<usize> = (0..charges.len()).filter(refuses).collect();
        if refusing.is_empty() {
            self.violate(format!("refused by nobody: {plan:?} {outcome:?}"));
        }
        if outcome.source != Source::Cached {
            return;
        }
        for at in refusing {
            let (slot, target) = self.stores[plan.instance].target(charges[at].limit, charges[at].key);
            let within = match self.rules[plan.charges[at].0].options.refusals {
                Refusals::Counted => return self.violate("remembered what must be counted".into()),
                Refusals::Brief => Duration::from_millis(1_020),
                Refusals::Final => Duration::from_secs(3_600),
            };
            let mut world = locked(&self.world);
            let is_stale = world.books.may_be_stale(plan.instance, &target.key, within);
            if !is_stale && !world.would_refuse(slot, &target, charges[at].cost) {
                world.books.violate(format!("a refusal was remembered that does not hold: {plan:?} {outcome:?}"));
            }
        }
    }

    fn check_passed(&self, plan: &Plan, charges: &[KeyedCharge<'_, RedisLimit>], outcome: &Outcome<RedisReceipt>) {
        for (at, asked) in charges.iter().enumerate() {
            let receipt = outcome.receipts.iter().find(|(position, _)| *position == at);
            if asked.mode == Mode::Enforce && asked.cost > 0 && receipt.is_none() {
                self.violate(format!("passed without a charge: {plan:?} {outcome:?}"));
            }
            if let Some((_, receipt)) = receipt {
                self.check_receipt(plan, at, receipt, &outcome.decisions[at]);
            }
        }
    }

    fn check_receipt(&self, plan: &Plan, at: usize, receipt: &RedisReceipt, decision: &Decision) {
        let (rule, _, cost, mode) = plan.charges[at];
        let key = receipt.target().key.clone();
        let mut world = locked(&self.world);
        let mut seen = self.seen.lock().unwrap();
        match receipt.seen() {
            SeenReceipt::Server(charged) => {
                world.books.claimed(plan.instance, &key, &charged, &in_microseconds(*decision));
                let admitted = seen.admitted.entry(key.clone()).or_insert((rule, Vec::new()));
                admitted.1.push((charged.at, charged.cost));
                if self.rules[rule].quota.kind() == AlgorithmKind::Concurrency {
                    if plan.charges.len() == 1 {
                        let asked = (plan.instance, key.clone(), cost, mode == Mode::Shadow);
                        seen.order.entry(asked).or_default().push((plan.arrival, charged.mark));
                    }
                    let held = seen.held.entry(key.clone()).or_default();
                    held.push((plan.instance, charged));
                    let now = world.now_us();
                    let in_force = held.iter().filter(|(holder, held)| world.books.lease(*holder, &key, held, now).0);
                    let permits: u64 = in_force.map(|(_, held)| held.cost).sum();
                    if permits > self.rules[rule].quota.amount() && !world.books.lost_something(&key) {
                        world.books.violate(format!("{permits} permits are out: {plan:?}"));
                    }
                }
            }
            SeenReceipt::Here => {
                world.books.passed_uncounted(plan.instance, &key, cost);
                seen.counted_here.entry((plan.instance, key)).or_insert((rule, 0)).1 += cost as i64;
            }
            SeenReceipt::Nowhere => world.books.passed_uncounted(plan.instance, &key, cost),
        }
    }

    async fn afterwards(&self, plan: &Plan, receipts: Vec<(usize, RedisReceipt)>) {
        let store = &self.stores[plan.instance];
        match plan.afterwards {
            Afterwards::Keep => {}
            Afterwards::GiveBack(pause) => {
                sleep(pause).await;
                for (_, receipt) in receipts {
                    self.give_back(plan, receipt);
                }
            }
            Afterwards::Settle(pause, true_cost) => {
                sleep(pause).await;
                for (_, receipt) in receipts {
                    if receipt.limit_is_concurrency() {
                        self.give_back(plan, receipt);
                        continue;
                    }
                    self.take_off(plan, &receipt, receipt.cost().saturating_sub(true_cost));
                    let began = Instant::now();
                    store.settle(receipt, true_cost).await;
                    if began.elapsed() > self.deadline + Duration::from_millis(2) {
                        self.violate(format!("settling took {:?}", began.elapsed()));
                    }
                }
            }
            Afterwards::Renew(first, second) => {
                for pause in [first, second] {
                    sleep(pause).await;
                    receipts.iter().for_each(|(_, receipt)| self.renew(plan, receipt));
                }
                sleep(first).await;
                receipts.iter().for_each(|(_, receipt)| self.renew(plan, receipt));
            }
        }
    }

    fn renew(&self, plan: &Plan, receipt: &RedisReceipt) {
        let renewed = self.stores[plan.instance].renew(receipt);
        if let SeenReceipt::Server(charged) = receipt.seen() {
            let mut world = locked(&self.world);
            let now = world.now_us();
            let (_, told_lost) = world.books.lease(plan.instance, &receipt.target().key, &charged, now);
            let is_permit = receipt.limit_is_concurrency();
            if renewed != (is_permit && !told_lost) {
                world.books.violate(format!("renewed {renewed}, told that it is lost {told_lost}"));
            }
        }
    }

    fn give_back(&self, plan: &Plan, receipt: RedisReceipt) {
        let key = receipt.target().key.clone();
        match receipt.seen() {
            SeenReceipt::Server(charged) => {
                locked(&self.world).books.returned(plan.instance, &key, &charged);
                let mut seen = self.seen.lock().unwrap();
                let held = seen.held.entry(key).or_default();
                if let Some(at) = held.iter().position(|held| *held == (plan.instance, charged)) {
                    held.swap_remove(at);
                }
            }
            SeenReceipt::Here => self.take_off(plan, &receipt, receipt.cost()),
            SeenReceipt::Nowhere => {}
        }
        self.stores[plan.instance].give_back(receipt);
    }

    /// Something is given back to this instance's own count.
    fn take_off(&self, plan: &Plan, receipt: &RedisReceipt, amount: u64) {
        let mut seen = self.seen.lock().unwrap();
        let owner = (plan.instance, receipt.target().key.clone());
        if let (SeenReceipt::Here, Some(counted)) = (receipt.seen(), seen.counted_here.get_mut(&owner)) {
            counted.1 -= amount as i64;
        }
    }
}

fn in_microseconds(decision: Decision) -> Decision {
    use tollgate_core::Verdict;
    let verdict = match decision.verdict {
        Verdict::Allowed { delay } => Verdict::Allowed { delay: delay / 1_000 },
        other => other,
    };
    let Decision { limit, remaining, next_after, reset_after, .. } = decision;
    Decision { verdict, limit, remaining, next_after: next_after / 1_000, reset_after: reset_after / 1_000 }
}
