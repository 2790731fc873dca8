//! 100,000 keys in three regions, while traffic moves, an instance is killed, and a region is cut off.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_testbed::{Fault, Reply};

use crate::admitted::{Admission, Admitted};
use crate::instance::{Instance, start_child};
use crate::limits::{Key, Rule, cold, hot};
use crate::load::{Load, request_once};
use crate::servers::Servers;
use crate::support::{ChildProcess, until};
use crate::{AP, EPOCH, EU, REGIONS, TIMEOUT, US};

/// Keys that are requested all the time, and the number of requests a second at which one region alone asks for the whole
/// rate of each.
const HOT_KEYS: u32 = 6;
const WHOLE_RATE: u64 = 17;

/// Keys that are requested a few times.
const COLD_KEYS: u32 = 100_000;

/// One of so many cold keys is requested in a second region, and in all regions.
const IN_TWO_REGIONS: u32 = 5;
const IN_ALL_REGIONS: u32 = 25;

/// The part of an epoch, in milliseconds, before which no region reads the reports to it.
const CUTOFF_MS: u64 = 900;

/// Most epochs in which the child to be killed reports.
const KILLS: usize = 10;

const POLL: Duration = Duration::from_millis(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_traffic_moves_and_instances_and_links_fail() {
    let mut scene = Scene::start().await;
    let cold = tokio::spawn(request_cold_keys(scene.instances.clone()));
    scene.steady_traffic().await;
    scene.shifting_traffic().await;
    scene.adversarial_traffic().await;
    let killed = scene.kill_before_the_result_is_read().await;
    let cut = scene.cut_off_and_heal().await;
    let cold = cold.await.unwrap();
    let lent = scene.max_lent;
    let mut log = scene.end().await;
    log.merge(cold);
    println!("{}; {lent} keys lent at most; {killed}; {cut}", log.assert_within_limits());
    assert_eq!(log.keys(Rule::Hot), HOT_KEYS as usize);
    // The bursts were used. On a slow machine less than all of them.
    let (largest, used) = log.least_bursts(Rule::Hot);
    assert!(largest * 2 > Rule::Hot.burst() && used > 0, "{largest}, {used}");
    assert!(log.least_bursts(Rule::Cold).0 * 2 > Rule::Cold.burst());
    assert!(log.keys(Rule::Cold) * 2 > COLD_KEYS as usize, "{}", log.keys(Rule::Cold));
    assert!(lent > 0, "nothing was lent, so the test proves nothing");
}

/// Three regions with two instances each. One of them is a process of its own.
struct Scene {
    servers: Servers,
    instances: [Vec<Instance>; 3],
    loads: [Vec<Load>; 3],
    child: ChildProcess,
    /// The names of the instances of the child's region.
    known: BTreeSet<String>,
    child_name: String,
    seed: u64,
    max_lent: u64,
    log: Admitted,
}

impl Scene {
    async fn start() -> Scene {
        let servers = Servers::start();
        let mut instances: [Vec<Instance>; 3] = Default::default();
        for (seed, region) in [EU, EU, US, AP, AP].into_iter().enumerate() {
            instances[region].push(Instance::start(&servers, region, seed as u64).await);
        }
        let load = |instance: &Instance| Load::start(instance.clone(), HOT_KEYS, false);
        let loads = [0, 1, 2].map(|region: usize| instances[region].iter().map(load).collect());
        let mut known = BTreeSet::new();
        wait_for_another_instance(&servers, &mut known).await;
        let child = start_child(&servers, US, HOT_KEYS, 1, 100);
        let child_name = wait_for_another_instance(&servers, &mut known).await;
        let (max_lent, log) = (0, Admitted::default());
        Scene { servers, instances, loads, child, known, child_name, seed: 100, max_lent, log }
    }

    /// Sets the requests a second for each hot key in each region, and waits.
    async fn request(&mut self, per_second: [u64; 3], span: Duration) {
        for (loads, per_second) in self.loads.iter().zip(per_second) {
            loads.iter().for_each(|load| load.set(per_second.div_ceil(loads.len() as u64)));
        }
        let begun = Instant::now();
        while begun.elapsed() < span {
            sleep(EPOCH / 10).await;
            let lent = self.instances.iter().flatten().map(|instance| instance.status().lending_keys).max();
            self.max_lent = self.max_lent.max(lent.unwrap_or(0));
        }
    }

    /// Each region asks for its share of the rate.
    async fn steady_traffic(&mut self) {
        let per_second = REGIONS.map(|(_, weight)| u64::from(weight) * WHOLE_RATE / 100);
        self.request(per_second, 3 * EPOCH).await;
    }

    /// One region asks for three times the rate, each in its turn.
    async fn shifting_traffic(&mut self) {
        for busy in [EU, US, AP, EU] {
            self.request([0, 1, 2].map(|region| if region == busy { 3 * WHOLE_RATE } else { 0 }), 3 * EPOCH / 2).await;
        }
    }

    /// All regions ask for much more than the rate at once, and then one alone, at times that are no multiple of epochs.
    async fn adversarial_traffic(&mut self) {
        for alone in [AP, US, EU, US] {
            self.request([10 * WHOLE_RATE; 3], 7 * EPOCH / 10).await;
            self.request([0, 1, 2].map(|region| if region == alone { 20 * WHOLE_RATE } else { 0 }), 8 * EPOCH / 10)
                .await;
        }
    }

    /// Kills an instance after its report was accepted, and before it can have read the loans that follow from it: it has
    /// offered what the other instance of its region then asks for.
    async fn kill_before_the_result_is_read(&mut self) -> String {
        self.request([3 * WHOLE_RATE, 0, 0], 2 * EPOCH).await;
        for attempt in 1..=KILLS {
            let start_ms = self.wait_until_the_child_reports().await;
            self.child.kill();
            let killed_ms = self.servers.global_ms();
            self.collect_from_child();
            if killed_ms < start_ms + CUTOFF_MS {
                self.request([10 * WHOLE_RATE; 3], 2 * EPOCH).await;
                self.survivor_reports().await;
                return format!(
                    "killed {} ms into the epoch of the report, in attempt {attempt}",
                    killed_ms - start_ms
                );
            }
            self.seed += 1;
            self.child = start_child(&self.servers, US, HOT_KEYS, 1, self.seed);
            self.child_name = wait_for_another_instance(&self.servers, &mut self.known).await;
        }
        panic!("the child was never killed before the cutoff");
    }

    async fn wait_until_the_child_reports(&self) -> u64 {
        let begun = Instant::now();
        loop {
            if let Some((reporter, start_ms)) = self.servers.reporter(US)
                && reporter == self.child_name
            {
                return start_ms;
            }
            assert!(begun.elapsed() < TIMEOUT, "the child never reported for its region");
            sleep(POLL).await;
        }
    }

    fn collect_from_child(&mut self) {
        while let Some(message) = self.child.receive() {
            if let Some((key, admission)) = Admission::parse(&message) {
                self.log.add(hot(key), admission);
            }
        }
    }

    async fn survivor_reports(&self) {
        let survivor = &self.instances[US][0];
        let reports = survivor.status().reports;
        until("the other instance reports for the region", || survivor.status().reports > reports).await;
    }

    /// Cuts a region off from the global server after it has reported, so that it cannot read the loans, until it
    /// enforces its share again; and then heals the link.
    async fn cut_off_and_heal(&mut self) -> String {
        self.request([3 * WHOLE_RATE, 0, 0], 2 * EPOCH).await;
        let begun = Instant::now();
        while self.servers.reporter(AP).is_none() {
            assert!(begun.elapsed() < TIMEOUT, "the region never reported");
            sleep(POLL).await;
        }
        let without_share_before = without_share(&self.instances[AP]);
        self.servers.proxies[AP].set(Fault::BlackHole);
        self.request([10 * WHOLE_RATE; 3], 2 * EPOCH).await;
        let cut_off = &self.instances[AP];
        let silent = || cut_off.iter().all(|instance| instance.status().global_silent_for.is_some());
        until("the region has lost the global server", silent).await;
        let admitted = || self.loads[AP].iter().map(Load::admitted).sum::<u64>();
        let (before, missed) = (admitted(), missed_reports(cut_off));
        until("the region admits requests while it is cut off", || admitted() >= before + u64::from(HOT_KEYS) * 5)
            .await;
        until("the region misses reports", || missed_reports(cut_off) >= missed + 2).await;
        let cut = begun.elapsed();
        let without_share = without_share(cut_off) - without_share_before;
        self.servers.proxies[AP].set(Fault::Pass);
        let reports = || cut_off.iter().map(|instance| instance.status().reports).sum::<u64>();
        let reported = reports();
        until("the region reports again", || reports() > reported).await;
        self.request([10 * WHOLE_RATE; 3], EPOCH).await;
        self.request([0, 0, 20 * WHOLE_RATE], EPOCH).await;
        format!("cut off for {cut:.1?}, in which {without_share} requests were refused without a share")
    }

    async fn end(mut self) -> Admitted {
        for load in self.loads.into_iter().flatten() {
            self.log.merge(load.end().await);
        }
        self.log
    }
}

fn without_share(instances: &[Instance]) -> u64 {
    instances.iter().map(|instance| instance.refused_by_failure_mode()).sum()
}

fn missed_reports(instances: &[Instance]) -> u64 {
    instances.iter().map(|instance| instance.status().missed_reports).sum()
}

/// Waits until an instance of the child's region has stored its demand that is not known yet. Returns its name.
async fn wait_for_another_instance(servers: &Servers, known: &mut BTreeSet<String>) -> String {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < TIMEOUT, "no other instance than {known:?}");
        let epoch_ms = EPOCH.as_millis() as u64;
        let next_ms = servers.global_ms() / epoch_ms * epoch_ms + epoch_ms;
        let Reply::Array(fields) =
            servers.regional[US].command(&["HKEYS", &format!("tollgate:\\.region:{next_ms}")]).unwrap()
        else {
            panic!("HKEYS")
        };
        let names = fields.iter().filter_map(|field| field.text()?.strip_prefix("demand-of:"));
        if let Some(name) = names.map(str::to_owned).find(|name| known.insert(name.clone())) {
            return name;
        }
        sleep(POLL).await;
    }
}

/// Requests all cold keys in the region of each, and then some of them in others. Each request asks for the whole burst of
/// the region.
async fn request_cold_keys(instances: [Vec<Instance>; 3]) -> Admitted {
    let instances = Arc::new(instances);
    let mut log = Admitted::default();
    for (moved_by, one_of) in [(0, 1), (1, IN_TWO_REGIONS), (2, IN_ALL_REGIONS)] {
        log.merge(
            request_in_all(
                &instances,
                move |region| cold_keys(region, moved_by, one_of),
                |region| Rule::Cold.burst() * u64::from(REGIONS[region].1) / 100,
            )
            .await,
        );
    }
    // All regions at once.
    log.merge(
        request_in_all(&instances, |_| (0..COLD_KEYS).step_by(IN_ALL_REGIONS as usize).map(cold).collect(), |_| 1)
            .await,
    );
    log
}

/// Returns the keys whose region is `moved_by` before this one, and of these one of so many.
fn cold_keys(region: usize, moved_by: usize, one_of: u32) -> Vec<Key> {
    let home = |key: u32| match (key / IN_ALL_REGIONS) % 10 {
        0..5 => EU,
        5..8 => US,
        _ => AP,
    };
    let numbers = (0..COLD_KEYS).filter(|key| key % one_of == 0 && (home(*key) + moved_by) % 3 == region);
    numbers.map(cold).collect()
}

async fn request_in_all(
    instances: &Arc<[Vec<Instance>; 3]>,
    keys: impl Fn(usize) -> Vec<Key>,
    cost: impl Fn(usize) -> u64,
) -> Admitted {
    let requests = [0, 1, 2].map(|region| {
        let (instances, keys, cost) = (Arc::clone(instances), keys(region), cost(region));
        tokio::spawn(async move { request_once(&instances[region], keys.into_iter(), cost).await })
    });
    let mut log = Admitted::default();
    for requested in requests {
        log.merge(requested.await.unwrap());
    }
    log
}
