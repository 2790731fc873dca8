use std::fmt;

use super::{Consistency, DEFAULT_LEASE_GENERATION_NS};

/// Options of path normalisation, in addition to the steps that always apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Whether a trailing slash is significant.
    pub trailing_slash: TrailingSlash,
    /// Whether `/Login` is `/login`.
    pub ignore_case: bool,
}

/// Whether a trailing slash of a path is significant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrailingSlash {
    /// It is ignored: `/login/` is `/login`.
    #[default]
    Ignore,
    /// It is kept: `/login/` is another path than `/login`.
    Keep,
}

/// The rate limit fields of responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseFields {
    /// The sets of fields to send.
    pub sets: Vec<FieldSet>,
    /// The format of `X-RateLimit-Reset`.
    pub reset: ResetFormat,
    /// The largest random delay that is added to the retry time of refused clients, so that they do not all retry at
    /// once.
    pub jitter_ns: u64,
}

impl Default for ResponseFields {
    fn default() -> ResponseFields {
        ResponseFields { sets: vec![FieldSet::Ietf, FieldSet::XRateLimit], reset: ResetFormat::Epoch, jitter_ns: 0 }
    }
}

/// A set of response fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSet {
    /// `RateLimit-Policy` and `RateLimit`.
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    XRateLimit,
}

/// The format of `X-RateLimit-Reset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetFormat {
    /// Seconds since 1970.
    #[default]
    Epoch,
    /// Seconds from now.
    Delta,
}

/// Where counters are stored.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreSettings {
    /// In this process.
    Memory(MemorySettings),
    /// In Redis or Valkey, standalone or as a cluster.
    Redis(RedisSettings),
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings::Memory(MemorySettings::default())
    }
}

/// The size of the memory store, and its snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySettings {
    /// The most keys that are stored.
    pub entries: u64,
    /// What happens to a new key when the store is full of live keys.
    pub when_full: WhenFullSetting,
    /// The snapshots; `None` for none.
    pub snapshot: Option<SnapshotSettings>,
}

impl Default for MemorySettings {
    fn default() -> MemorySettings {
        MemorySettings { entries: 1_000_000, when_full: WhenFullSetting::Evict, snapshot: None }
    }
}

/// Snapshots of the counters, so that a restart does not refill limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// The file.
    pub file: String,
    /// The interval. A killed process loses the counts since the last snapshot.
    pub every_ns: u64,
}

impl SnapshotSettings {
    /// Creates settings for snapshots in this file, at the default interval of 30 seconds.
    #[must_use]
    pub fn to(file: String) -> SnapshotSettings {
        SnapshotSettings { file, every_ns: 30_000_000_000 }
    }
}

/// What happens to a new key when the store is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFullSetting {
    /// The key that is closest to unused is evicted.
    #[default]
    Evict,
    /// The new key is refused.
    Refuse,
}

/// The connection to Redis, and what happens when it fails.
#[derive(Clone, Debug, PartialEq)]
pub struct RedisSettings {
    /// The nodes, each as `host:port`.
    pub nodes: Vec<String>,
    /// The topology of the nodes.
    pub mode: RedisTopology,
    /// The longest time that a check may take.
    pub deadline_ns: u64,
    /// How requests are decided when Redis fails.
    pub on_failure: FailureMode,
    /// The share of each limit that one instance grants while Redis is unreachable: numerator and denominator.
    pub fallback_share: (u32, u32),
    /// The consistency of rules without their own setting.
    pub consistency: Consistency,
    /// The length of a generation of leases, in whole milliseconds. A lease is counted until the end of the generation
    /// after its own.
    pub lease_ns: u64,
    /// The prefix of all keys.
    pub prefix: String,
    /// The number of the database.
    pub database: u32,
    /// The user name (Redis ACL).
    pub username: Option<String>,
    /// The source of the password.
    pub password: Option<Secret>,
    /// Whether connections use TLS.
    pub tls: bool,
    /// The file with the certificates of the trusted authorities (CA); `None` for those of the system.
    pub tls_ca: Option<String>,
    /// The name of the primary that the sentinels monitor.
    pub sentinel_primary: Option<String>,
}

impl RedisSettings {
    /// Creates settings with these nodes and the defaults for all else.
    #[must_use]
    pub fn at(nodes: Vec<String>) -> RedisSettings {
        RedisSettings {
            nodes,
            mode: RedisTopology::default(),
            deadline_ns: 20_000_000,
            on_failure: FailureMode::default(),
            fallback_share: (1, 2),
            consistency: Consistency::default(),
            lease_ns: DEFAULT_LEASE_GENERATION_NS,
            prefix: "tollgate:".to_owned(),
            database: 0,
            username: None,
            password: None,
            tls: false,
            tls_ca: None,
            sentinel_primary: None,
        }
    }
}

/// The source of a secret. The policy file never contains the secret itself.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The environment variable of this name.
    Environment(String),
    /// The file at this path.
    File(String),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Environment(name) => write!(f, "environment variable {name}"),
            Secret::File(path) => write!(f, "file {path}"),
        }
    }
}

/// The key that hashes the values of secret identities before they are stored. All instances that share a store need
/// the same key.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(pub Vec<u8>);

/// Omits the key.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

/// The topology of the Redis nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedisTopology {
    /// One server.
    #[default]
    Standalone,
    /// Sentinels, which monitor the server.
    Sentinel,
    /// A cluster.
    Cluster,
}

/// How requests are decided when the store fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureMode {
    /// The request passes.
    Open,
    /// The request is refused.
    Closed,
    /// This instance counts alone, with its share of the limit.
    #[default]
    Local,
}
