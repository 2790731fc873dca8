//! Opens the store that a policy configures, if it needs connections: a shared store, or a region in memory.

use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

use tollgate_policy::CheckedPolicy;
use tollgate_policy::model::{self, RedisSettings, Secret};
use tollgate_policy::pem::certificate_problem;
use tollgate_redis::{
    Password, RedisOptions, RedisStore, RedisStoreSettings, RegionSettings, RegionalMemoryStore, StoreEvent, TlsOptions,
};
use tollgate_store::{MemoryStore, RealClock};

use crate::limiter::{AsyncLimiter, LimiterError, memory_options, memory_store};

/// Why the store of a policy cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The password cannot be read.
    Password {
        /// Its source: an environment variable or a file.
        secret: Secret,
        /// The error.
        why: String,
    },
    /// The settings are not valid.
    Settings(Box<dyn Error + Send + Sync>),
}

impl AsyncLimiter {
    /// Creates a limiter for a policy whose counters are on Redis, Valkey or Redis Cluster, or of a region whose counters
    /// are in this process.
    ///
    /// Call it within a tokio runtime, which runs the connections. It does not wait for them: until a server replies,
    /// each rule applies its `on_failure` mode. `on_event` is called when servers fail and when they recover.
    pub fn connect(
        policy: &CheckedPolicy,
        on_event: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<AsyncLimiter, LimiterError> {
        match (&policy.store, &policy.regions) {
            (model::StoreSettings::Redis(settings), regions) => {
                let store = redis_store(settings, regions.as_ref(), on_event).map_err(LimiterError::Connect)?;
                AsyncLimiter::with_store(policy, store)
            }
            (model::StoreSettings::Memory(settings), Some(regions)) if regions.own.is_some() => {
                let memory = memory_store(settings, RealClock::new())?;
                let store =
                    regional_memory_store(memory, settings, regions, on_event).map_err(LimiterError::Connect)?;
                AsyncLimiter::with_store(policy, store)
            }
            (model::StoreSettings::Memory(_), _) => Err(LimiterError::OtherStore),
        }
    }
}

/// Opens the store of a region whose counters are in this process, within a tokio runtime, and synchronises it with the
/// other regions. `memory` counts under the limits that the regions do not divide. It does not wait for connections.
pub fn regional_memory_store(
    memory: MemoryStore,
    settings: &model::MemorySettings,
    regions: &model::Regions,
    on_event: impl Fn(StoreEvent) + Send + Sync + 'static,
) -> Result<RegionalMemoryStore, ConnectError> {
    let unset = || ConnectError::Settings("the region of this instance is not set".into());
    let regions = region_settings(regions)?.ok_or_else(unset)?;
    let store = RegionalMemoryStore::connect(memory, memory_options(settings), regions, seed(), on_event);
    store.map_err(ConnectError::Settings)
}

/// Opens the shared store that a policy configures, within a tokio runtime, and synchronises it with the other regions
/// if there are some. It does not wait for connections.
pub fn redis_store(
    settings: &RedisSettings,
    regions: Option<&model::Regions>,
    on_event: impl Fn(StoreEvent) + Send + Sync + 'static,
) -> Result<RedisStore, ConnectError> {
    let options = options(settings)?;
    let regions = regions.map(region_settings).transpose()?.flatten();
    let connected = RedisStore::connect(&options, RedisStoreSettings { regions, ..store_settings(settings) }, on_event);
    connected.map_err(|error| ConnectError::Settings(authority_problem(settings).map_or(error, Into::into)))
}

/// Returns what is wrong with the file of trusted authorities, with its line; the TLS library's error has none.
fn authority_problem(settings: &RedisSettings) -> Option<String> {
    let file = settings.tls_ca.as_ref().filter(|_| settings.tls)?;
    let problem = certificate_problem(&std::fs::read(file).ok()?)?;
    Some(format!("the file {file} {}; {}", problem.what, problem.hint))
}

fn options(settings: &RedisSettings) -> Result<RedisOptions, ConnectError> {
    let nodes = settings.nodes.clone();
    let mut options = match settings.mode {
        model::RedisTopology::Standalone => RedisOptions { nodes, ..RedisOptions::standalone("") },
        model::RedisTopology::Sentinel => {
            RedisOptions::sentinel(nodes, settings.sentinel_primary.clone().unwrap_or_default())
        }
        model::RedisTopology::Cluster => RedisOptions::cluster(nodes),
    };
    options.username = settings.username.clone();
    options.password = settings.password.as_ref().map(password).transpose()?;
    options.database = settings.database;
    options.tls = settings
        .tls
        .then(|| TlsOptions { authority: settings.tls_ca.as_ref().map(PathBuf::from), ..TlsOptions::default() });
    Ok(options)
}

/// Returns the settings of regions; `None` if it is not known which of them this one is, and so no limit is divided.
fn region_settings(regions: &model::Regions) -> Result<Option<RegionSettings>, ConnectError> {
    let model::Regions { own: Some(region), weights, sync_ns, global } = regions else { return Ok(None) };
    let as_store = RedisSettings {
        mode: global.mode,
        database: global.database,
        username: global.username.clone(),
        password: global.password.clone(),
        tls: global.tls,
        tls_ca: global.tls_ca.clone(),
        sentinel_primary: global.sentinel_primary.clone(),
        ..RedisSettings::at(global.nodes.clone())
    };
    Ok(Some(RegionSettings {
        region: region.clone(),
        weights: weights.clone(),
        epoch: Duration::from_nanos(*sync_ns),
        prefix: global.prefix.clone(),
        global: self::options(&as_store)?,
    }))
}

fn store_settings(settings: &RedisSettings) -> RedisStoreSettings {
    RedisStoreSettings {
        prefix: settings.prefix.clone(),
        deadline: Duration::from_nanos(settings.deadline_ns),
        seed: seed(),
        ..RedisStoreSettings::default()
    }
}

/// Returns a seed that differs between instances, so that they do not probe at the same time.
fn seed() -> u64 {
    RandomState::new().hash_one(())
}

fn password(secret: &Secret) -> Result<Password, ConnectError> {
    let found = match secret {
        Secret::Environment(name) => from_environment(name),
        Secret::File(path) => Password::from_file(path).map_err(|error| error.to_string()),
    };
    found.map_err(|why| ConnectError::Password { secret: secret.clone(), why })
}

fn from_environment(name: &str) -> Result<Password, String> {
    let text = std::env::var(name).map_err(|error| error.to_string())?;
    // A variable that was set from a file may end with its newline.
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err("it is empty".to_owned()),
        text => Ok(Password::from(text)),
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Password { secret, why } => write!(f, "no password for the store in {secret:?}: {why}"),
            ConnectError::Settings(error) => write!(f, "the store cannot be used: {error}"),
        }
    }
}

impl Error for ConnectError {}
