//! Long failures of the global server, and large steps of its clock.

use std::time::Duration;

use tokio::time::sleep;

use super::{EPOCH, REGIONS, RegionScenario, RegionTrouble, TICK, weights};
use crate::regions::ExchangeServer;

/// The seeds of each test.
const SEEDS: std::ops::Range<u64> = 0..20;

fn in_scenarios(play: &impl AsyncFn(&mut RegionScenario)) {
    for seed in SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut scenario = RegionScenario::new(seed, None);
            // No other failures.
            scenario.trouble = RegionTrouble::None;
            scenario.hashes.lock().unwrap().heal();
            play(&mut scenario).await;
        });
    }
}

impl RegionScenario {
    async fn run_for(&mut self, epochs: u32) {
        for _ in 0..epochs * EPOCH.as_millis() as u32 / TICK.as_millis() as u32 {
            self.request_all();
            sleep(TICK).await;
        }
    }

    fn have_all_shares(&self) -> bool {
        self.regions.iter().flat_map(|region| &region.instances).all(|instance| instance.share().is_some())
    }
}

#[test]
fn shares_stay_while_the_global_server_does_not_answer() {
    in_scenarios(&async |scenario: &mut RegionScenario| {
        scenario.change_demand();
        scenario.run_for(4).await;
        assert!(scenario.have_all_shares());
        for region in 0..REGIONS.len() {
            let hashes = &mut scenario.hashes.lock().unwrap();
            hashes.cut(region, None, ExchangeServer::Global, Duration::from_secs(3_600));
        }
        for _ in 0..20 * EPOCH.as_millis() / TICK.as_millis() {
            scenario.request_all();
            sleep(TICK).await;
            assert!(scenario.have_all_shares());
        }
    });
}

/// The global server loses all votes while a change of the weights is pending, and a region that has not voted for the new
/// weights cannot reach it: the others do not take what that region still enforces.
#[test]
fn pending_weights_stay_pending_when_the_global_server_loses_its_state() {
    in_scenarios(&async |scenario: &mut RegionScenario| {
        scenario.run_for(4).await;
        let regions = scenario.regions.len();
        scenario.weights = weights(&mut scenario.random, regions);
        scenario.allowance += scenario.quota.burst();
        for region in 1..regions {
            for instance in 0..scenario.regions[region].instances.len() {
                scenario.restart(region, instance);
            }
        }
        scenario.run_for(4).await;
        {
            let hashes = &mut scenario.hashes.lock().unwrap();
            hashes.flush_global();
            hashes.cut(0, None, ExchangeServer::Global, Duration::from_secs(3_600));
        }
        for _ in 0..10 * EPOCH.as_millis() / TICK.as_millis() {
            scenario.request_all();
            sleep(TICK).await;
            let shares: Vec<u32> = scenario.regions.iter().filter_map(|region| region.instances[0].share()).collect();
            assert!(shares.iter().sum::<u32>() <= 1_000, "{shares:?}");
        }
        // What the server had lent for two epochs may be lent once more.
        scenario.allowance += 2 * scenario.quota.amount();
        scenario.check_bound().unwrap();
    });
}

/// The clock of the global server is an hour ahead for some epochs. Nothing is lent until it has caught up.
#[test]
fn regions_enforce_their_shares_after_the_clock_of_the_global_server_was_far_ahead() {
    const HOUR_US: i64 = 3_600_000_000;
    in_scenarios(&async |scenario: &mut RegionScenario| {
        for step_us in [HOUR_US, -HOUR_US] {
            scenario.run_for(4).await;
            scenario.hashes.lock().unwrap().step_global_clock(step_us);
        }
        scenario.run_for(6).await;
        let instances = || scenario.regions.iter().flat_map(|region| &region.instances);
        let mut full_for = vec![0_u32; instances().count()];
        let ticks = 10 * EPOCH.as_millis() as u32 / TICK.as_millis() as u32;
        for _ in 0..ticks {
            sleep(TICK).await;
            assert!(scenario.have_all_shares());
            for (instance, full_for) in instances().zip(&mut full_for) {
                *full_for += u32::from(Some(instance.store.refill_rate(&instance.limit, b"idle")) == instance.share());
            }
        }
        // In an epoch, each has the reserve until it has read that nothing is lent.
        assert!(full_for.iter().all(|count| *count > ticks / 2), "{full_for:?} of {ticks}");
    });
}
