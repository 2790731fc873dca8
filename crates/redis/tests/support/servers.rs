use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate_redis::{RedisOptions, RedisStore, StoreSettings};
use tollgate_testbed::{RedisCluster, RedisServer, Reply};

use super::panics::watch_for_panics;
use super::patience::until;

/// The settings of an operator who changed nothing.
pub(crate) fn eager() -> StoreSettings {
    StoreSettings::default()
}

/// For tests in which no check may fail only because the machine is busy.
pub(crate) fn patient() -> StoreSettings {
    StoreSettings { deadline: Duration::from_millis(900), ..StoreSettings::default() }
}

pub(crate) fn standalone_options(address: SocketAddr) -> RedisOptions {
    RedisOptions::standalone(address.to_string())
}

pub(crate) fn cluster_options(cluster: &RedisCluster) -> RedisOptions {
    RedisOptions::cluster(cluster.addresses().iter().map(ToString::to_string).collect())
}

/// An instance that has reached its servers.
pub(crate) async fn connect(options: &RedisOptions, settings: StoreSettings) -> Arc<RedisStore> {
    let store = begin_to_connect(options, settings);
    until("the servers are reached", || store.is_ready()).await;
    store
}

/// An instance that may not have reached its servers.
pub(crate) fn begin_to_connect(options: &RedisOptions, settings: StoreSettings) -> Arc<RedisStore> {
    watch_for_panics();
    Arc::new(RedisStore::connect(options, settings, |_| {}).unwrap())
}

/// In which slot a key lives, by a server's own account: its hash tag is the key.
pub(crate) fn slot_of(node: &RedisServer, key: &str) -> u16 {
    match node.command(&["CLUSTER", "KEYSLOT", key]).unwrap() {
        Reply::Integer(slot) => u16::try_from(slot).unwrap(),
        other => panic!("CLUSTER KEYSLOT: {other:?}"),
    }
}

/// How many calls of an instance failed for this cause.
pub(crate) fn troubles(store: &RedisStore, cause: &str) -> u64 {
    store.stats().troubles.iter().filter(|(name, _)| *name == cause).map(|(_, count)| count).sum()
}
