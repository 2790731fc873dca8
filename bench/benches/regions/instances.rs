use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_core::{Rate, RegionShare};
use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings, RegionSettings};
use tollgate_store::{Charge, Limit, LimitOptions, OnFailure, Quota, Refusals, Source, Store};
use tollgate_testbed::RedisServer;

pub(crate) const REGIONS: [(&str, u32); 3] = [("eu", 50), ("us", 30), ("ap", 20)];
const TOTAL_WEIGHT: u32 = 100;

/// So that no decision fails because the machine is busy.
const DEADLINE: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(60);

/// The servers of three regions, and the one that they share.
pub(crate) struct Servers {
    pub(crate) regional: [RedisServer; 3],
    pub(crate) global: RedisServer,
}

impl Servers {
    pub(crate) fn start() -> Servers {
        let server = || RedisServer::start(&[]).unwrap();
        Servers { regional: [(); 3].map(|()| server()), global: server() }
    }

    /// Starts an instance of each region.
    pub(crate) async fn connect(&self, epoch: Duration) -> Vec<Instance> {
        let mut instances = Vec::new();
        for region in 0..REGIONS.len() {
            instances.push(Instance::connect(self, region, epoch).await);
        }
        instances
    }
}

/// The instance of a region.
#[derive(Clone)]
pub(crate) struct Instance {
    pub(crate) store: Arc<RedisStore>,
    share: RegionShare,
}

impl Instance {
    async fn connect(servers: &Servers, region: usize, epoch: Duration) -> Instance {
        let (name, weight) = REGIONS[region];
        let regions = RegionSettings {
            region: name.to_owned(),
            weights: REGIONS.map(|(name, weight)| (name.to_owned(), weight)).to_vec(),
            epoch,
            prefix: "tollgate:".to_owned(),
            global: RedisOptions::standalone(servers.global.address().to_string()),
        };
        let settings = RedisStoreSettings {
            deadline: DEADLINE,
            regions: Some(regions),
            seed: region as u64,
            ..RedisStoreSettings::default()
        };
        let options = RedisOptions::standalone(servers.regional[region].address().to_string());
        let store = Arc::new(RedisStore::connect(&options, settings, |_| {}).unwrap());
        let begun = Instant::now();
        while !store.is_ready() || store.region_status().unwrap().share.is_none() {
            assert!(begun.elapsed() < TIMEOUT, "no share: {:?}", store.region_status());
            sleep(Duration::from_millis(5)).await;
        }
        Instance { store, share: RegionShare::new(weight, TOTAL_WEIGHT) }
    }

    /// Returns a limit that the regions divide, and lend each other.
    pub(crate) fn lent(&self, quota: Quota) -> Limit {
        self.limit("lent", quota, true)
    }

    /// Returns a limit of the region's share of the rate and of the burst.
    pub(crate) fn static_share(&self, quota: Quota) -> Limit {
        let scaled = |amount: u64| amount * u64::from(self.share.rate) / u64::from(RegionShare::WHOLE);
        let rate = Rate::new(scaled(quota.amount()), Duration::from_nanos(quota.period_ns())).unwrap();
        let rate = rate.with_burst(scaled(quota.burst())).unwrap();
        self.limit("static", Quota::token_bucket(rate).unwrap(), false)
    }

    fn limit(&self, scope: &str, quota: Quota, regional: bool) -> Limit {
        let options = LimitOptions { on_failure: OnFailure::Closed, refusals: Refusals::Brief, lease: None, regional };
        self.store.limit(scope, quota, options).unwrap()
    }

    /// Makes a request, which a server must decide. Returns whether it is admitted.
    pub(crate) async fn request(&self, limit: &Limit, key: &str, cost: u64) -> bool {
        let outcome = self.store.check_all(&[Charge::new(limit, key.as_bytes(), cost)]).await;
        assert_ne!(outcome.source, Source::Fallback, "{outcome:?}");
        outcome.passed
    }
}
