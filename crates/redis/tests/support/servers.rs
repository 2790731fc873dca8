use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings, StoreEvent};
use tollgate_testbed::{RedisCluster, RedisServer, Reply};

use super::panics::watch_for_panics;
use super::wait::until;

/// Returns the default settings.
pub(crate) fn default_settings() -> RedisStoreSettings {
    RedisStoreSettings::default()
}

/// Returns settings with a long deadline, for tests in which no check may fail only because the machine is busy.
pub(crate) fn long_deadline() -> RedisStoreSettings {
    RedisStoreSettings { deadline: Duration::from_millis(900), ..RedisStoreSettings::default() }
}

pub(crate) fn standalone_options(address: SocketAddr) -> RedisOptions {
    RedisOptions::standalone(address.to_string())
}

pub(crate) fn cluster_options(cluster: &RedisCluster) -> RedisOptions {
    RedisOptions::cluster(cluster.addresses().iter().map(ToString::to_string).collect())
}

/// Returns an instance that is connected to its servers.
pub(crate) async fn connect(options: &RedisOptions, settings: RedisStoreSettings) -> Arc<RedisStore> {
    let store = start_connecting(options, settings);
    until("the servers are connected", || store.is_ready()).await;
    store
}

/// Returns an instance that may not be connected to its servers yet.
pub(crate) fn start_connecting(options: &RedisOptions, settings: RedisStoreSettings) -> Arc<RedisStore> {
    watch_for_panics();
    Arc::new(RedisStore::connect(options, settings, |_| {}).unwrap())
}

/// The events of a store.
pub(crate) type Events = Arc<Mutex<Vec<StoreEvent>>>;

/// Returns an instance that is connected to its servers, and its events.
pub(crate) async fn connect_recording(
    options: &RedisOptions,
    settings: RedisStoreSettings,
) -> (Arc<RedisStore>, Events) {
    watch_for_panics();
    let events = Events::default();
    let record = Arc::clone(&events);
    let store = RedisStore::connect(options, settings, move |event| record.lock().unwrap().push(event)).unwrap();
    until("the servers are connected", || store.is_ready()).await;
    (Arc::new(store), events)
}

/// Returns the slot of a key, as a server computes it. The hash tag of a limited key is the key.
pub(crate) fn slot_of(node: &RedisServer, key: &str) -> u16 {
    match node.command(&["CLUSTER", "KEYSLOT", key]).unwrap() {
        Reply::Integer(slot) => u16::try_from(slot).unwrap(),
        other => panic!("CLUSTER KEYSLOT: {other:?}"),
    }
}

/// Returns how many calls of an instance failed for a cause.
pub(crate) fn failures(store: &RedisStore, cause: &str) -> u64 {
    store.stats().failures.iter().filter(|(name, _)| *name == cause).map(|(_, count)| count).sum()
}
