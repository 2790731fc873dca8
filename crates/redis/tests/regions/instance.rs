use std::net::SocketAddr;
use std::sync::Arc;

use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings, RegionStatus, RegionalMemoryStore};
use tollgate_store::{Charge, Limit, MemoryOptions, MemoryStore, RealClock, Source, Store};

use crate::admitted::{Admission, now_us};
use crate::limits::{Key, Rule};
use crate::load::Load;
use crate::servers::{Servers, usual_settings};
use crate::support::{ChildProcess, connect, standalone_options, until};

/// An instance of a region.
#[derive(Clone)]
pub(crate) struct Instance {
    store: Arc<RegionStore>,
    hot: Limit,
    cold: Limit,
}

/// Where a region has its counters.
enum RegionStore {
    OnServers(Arc<RedisStore>),
    InMemory(RegionalMemoryStore),
}

impl RegionStore {
    fn as_store(&self) -> &dyn Store {
        match self {
            RegionStore::OnServers(store) => &**store,
            RegionStore::InMemory(store) => store,
        }
    }
}

impl Instance {
    /// Starts an instance of one of the three regions, and waits until it has a share.
    pub(crate) async fn start(servers: &Servers, region: usize, seed: u64) -> Instance {
        let (regional, global) = servers.of(region);
        Instance::connect(&standalone_options(regional), usual_settings(region, global, seed)).await
    }

    pub(crate) async fn connect(regional: &RedisOptions, settings: RedisStoreSettings) -> Instance {
        Instance::without_share(regional, settings).await.with_share().await
    }

    /// Starts the instance of a region whose counters are in this process.
    pub(crate) async fn in_memory(settings: RedisStoreSettings) -> Instance {
        let options = MemoryOptions::default();
        let (memory, regions) = (MemoryStore::with(options, RealClock::new()).unwrap(), settings.regions.unwrap());
        let store = RegionalMemoryStore::connect(memory, options, regions, settings.seed, |_| {}).unwrap();
        Instance::over(RegionStore::InMemory(store)).with_share().await
    }

    async fn with_share(self) -> Instance {
        until("the instance has a share", || self.status().share.is_some()).await;
        self
    }

    fn over(store: RegionStore) -> Instance {
        let (hot, cold) = (Rule::Hot.limit(store.as_store()), Rule::Cold.limit(store.as_store()));
        Instance { store: Arc::new(store), hot, cold }
    }

    pub(crate) async fn without_share(regional: &RedisOptions, settings: RedisStoreSettings) -> Instance {
        Instance::over(RegionStore::OnServers(connect(regional, settings).await))
    }

    pub(crate) fn status(&self) -> RegionStatus {
        match &*self.store {
            RegionStore::OnServers(store) => store.region_status().unwrap(),
            RegionStore::InMemory(store) => store.region_status(),
        }
    }

    /// Returns the number of charges that were refused because the servers of the region failed.
    pub(crate) fn refused_by_failure_mode(&self) -> u64 {
        match &*self.store {
            RegionStore::OnServers(store) => store.stats().fallbacks_closed,
            RegionStore::InMemory(_) => 0,
        }
    }

    /// Makes a request. Returns the admission if it is admitted.
    pub(crate) async fn request(&self, key: Key, cost: u64) -> Option<Admission> {
        let from_us = now_us();
        let outcome =
            self.store.as_store().check_all(&[Charge::new(self.limit(key), key.name().as_bytes(), cost)]).await;
        assert!(!outcome.passed || outcome.source == Source::Regional, "{outcome:?}");
        outcome.passed.then(|| Admission { from_us, until_us: now_us(), cost })
    }

    /// Returns how many requests for a key this region would admit now.
    pub(crate) async fn remaining(&self, key: Key) -> u64 {
        let outcome = self.store.as_store().check_all(&[Charge::new(self.limit(key), key.name().as_bytes(), 0)]).await;
        outcome.decisions[0].remaining
    }

    fn limit(&self, key: Key) -> &Limit {
        match key.rule {
            Rule::Hot => &self.hot,
            Rule::Cold => &self.cold,
        }
    }
}

/// Starts an instance in a process of its own, which requests each hot key so many times a second.
pub(crate) fn start_child(servers: &Servers, region: usize, keys: u32, per_second: u64, seed: u64) -> ChildProcess {
    let (regional, global) = servers.of(region);
    let mut child = ChildProcess::start(&format!("{region} {regional} {global} {keys} {per_second} {seed}"));
    child.wait_until_ready();
    child.begin();
    child
}

/// Runs until it is killed. Each admission is sent at once.
pub(crate) async fn run_as_child(task: &str) {
    let parts: Vec<&str> = task.split(' ').collect();
    let [region, regional, global, keys, per_second, seed] = parts[..] else { panic!("{task}") };
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let settings = usual_settings(region.parse().unwrap(), address(global), seed.parse().unwrap());
    let instance = Instance::connect(&standalone_options(address(regional)), settings).await;
    ChildProcess::wait_for_start();
    let load = Load::start(instance, keys.parse().unwrap(), true);
    load.set(per_second.parse().unwrap());
    tokio::time::sleep(crate::TIMEOUT).await;
    drop(load.end().await);
}
