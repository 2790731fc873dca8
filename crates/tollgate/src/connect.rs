//! A policy's settings of a shared store, made into one.

use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

use tollgate_policy::CheckedPolicy;
use tollgate_policy::model::{self, RedisSettings, Secret};
use tollgate_redis::{Password, RedisOptions, RedisStore, StoreEvent, StoreSettings, TlsOptions};

use crate::limiter::{AsyncLimiter, LimiterError};

/// Why a policy's shared store cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The password is not where the policy says.
    Password {
        /// Where it should be.
        secret: Secret,
        /// What is wrong there.
        why: String,
    },
    /// The settings cannot be used.
    Settings(Box<dyn Error + Send + Sync>),
}

impl AsyncLimiter {
    /// A limiter for a policy whose counters are on Redis, Valkey or a cluster
    /// of them. It must be called within a tokio runtime, which carries the
    /// connections, and does not wait for them: until a server answers, each
    /// rule does what its `on_failure` says.
    ///
    /// `on_change` hears when servers fail and when they are back.
    pub fn connect(
        policy: &CheckedPolicy,
        on_change: impl Fn(StoreEvent) + Send + Sync + 'static,
    ) -> Result<AsyncLimiter, LimiterError> {
        let model::StoreSettings::Redis(settings) = &policy.store else { return Err(LimiterError::OtherStore) };
        let store = redis_store(settings, on_change).map_err(LimiterError::Connect)?;
        AsyncLimiter::with_store(policy, store)
    }
}

/// The shared store that a policy's settings describe. It must be opened within
/// a tokio runtime, which carries the connections, and does not wait for them.
pub fn redis_store(
    settings: &RedisSettings,
    on_change: impl Fn(StoreEvent) + Send + Sync + 'static,
) -> Result<RedisStore, ConnectError> {
    let options = options(settings)?;
    RedisStore::connect(&options, store_settings(settings), on_change).map_err(ConnectError::Settings)
}

fn options(settings: &RedisSettings) -> Result<RedisOptions, ConnectError> {
    let nodes = settings.nodes.clone();
    let mut options = match settings.mode {
        model::RedisMode::Standalone => RedisOptions { nodes, ..RedisOptions::standalone("") },
        model::RedisMode::Sentinel => {
            RedisOptions::sentinel(nodes, settings.sentinel_primary.clone().unwrap_or_default())
        }
        model::RedisMode::Cluster => RedisOptions::cluster(nodes),
    };
    options.username = settings.username.clone();
    options.password = settings.password.as_ref().map(password).transpose()?;
    options.database = settings.database;
    options.tls = settings
        .tls
        .then(|| TlsOptions { authority: settings.tls_ca.as_ref().map(PathBuf::from), ..TlsOptions::default() });
    Ok(options)
}

fn store_settings(settings: &RedisSettings) -> StoreSettings {
    StoreSettings {
        prefix: settings.prefix.clone(),
        deadline: Duration::from_nanos(settings.deadline_ns),
        // Another one for each instance, so that they do not all probe at once.
        seed: RandomState::new().hash_one(()),
        ..StoreSettings::default()
    }
}

fn password(secret: &Secret) -> Result<Password, ConnectError> {
    let found = match secret {
        Secret::Environment(name) => std::env::var(name).map_err(|error| error.to_string()),
        Secret::File(path) => std::fs::read_to_string(path).map_err(|error| error.to_string()),
    };
    let error = |why: String| ConnectError::Password { secret: secret.clone(), why };
    let text = found.map_err(error)?;
    // Editors end a file with a line.
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() {
        return Err(error("it is empty".to_owned()));
    }
    Ok(Password::from(text))
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
