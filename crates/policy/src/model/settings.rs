use std::fmt;

/// How paths are made comparable, besides what is always done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// What a slash at the end means.
    pub trailing_slash: TrailingSlash,
    /// Whether `/Login` is `/login`.
    pub ignore_case: bool,
}

/// What a slash at the end of a path means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrailingSlash {
    /// Nothing: `/login/` is `/login`.
    #[default]
    Ignore,
    /// Another path.
    Keep,
}

/// What clients are told about their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseFields {
    /// Which families of fields.
    pub sets: Vec<FieldSet>,
    /// How `X-RateLimit-Reset` is written.
    pub reset: Reset,
    /// Up to how much later than necessary refused clients are told to come
    /// back, so that they do not come all at once.
    pub jitter_ns: u64,
}

impl Default for ResponseFields {
    fn default() -> ResponseFields {
        ResponseFields { sets: vec![FieldSet::Ietf, FieldSet::XRateLimit], reset: Reset::Epoch, jitter_ns: 0 }
    }
}

/// A family of response fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSet {
    /// `RateLimit-Policy` and `RateLimit`.
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    XRateLimit,
}

/// How `X-RateLimit-Reset` is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reset {
    /// As seconds since 1970.
    #[default]
    Epoch,
    /// As seconds from now.
    Delta,
}

/// Where counters live.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreSettings {
    /// In this process.
    Memory(MemorySettings),
    /// In Redis, Valkey or a cluster of them.
    Redis(RedisSettings),
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings::Memory(MemorySettings::default())
    }
}

/// How much memory counters may take, and whether they outlive the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySettings {
    /// So many keys.
    pub entries: u64,
    /// What happens when all of them are live.
    pub when_full: WhenFull,
    /// Where they are written down; `None` for nowhere.
    pub snapshot: Option<SnapshotSettings>,
}

impl Default for MemorySettings {
    fn default() -> MemorySettings {
        MemorySettings { entries: 1_000_000, when_full: WhenFull::Evict, snapshot: None }
    }
}

/// Where counters are written down, so that a restart does not refill limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// The file.
    pub file: String,
    /// How often. Who is killed forgets what was used since.
    pub every_ns: u64,
}

impl SnapshotSettings {
    /// Into this file, as often as where nothing is said.
    #[must_use]
    pub fn to(file: String) -> SnapshotSettings {
        SnapshotSettings { file, every_ns: 30_000_000_000 }
    }
}

/// What happens to a new key when there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The key that is nearest to untouched makes room.
    #[default]
    Evict,
    /// It is refused.
    Refuse,
}

/// How Redis is reached, and what happens when it is not.
#[derive(Clone, Debug, PartialEq)]
pub struct RedisSettings {
    /// `host:port` of each.
    pub nodes: Vec<String>,
    /// What they are to each other.
    pub mode: RedisMode,
    /// How long a check may take.
    pub deadline_ns: u64,
    /// What happens to a check that fails.
    pub on_failure: OnFailure,
    /// Which share of each limit one instance grants on its own: numerator and denominator.
    pub fallback_share: (u32, u32),
    /// What all keys begin with.
    pub prefix: String,
    /// The number of the database.
    pub database: u32,
    /// The user of the access list.
    pub username: Option<String>,
    /// Where the password is.
    pub password: Option<Secret>,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// The file with the certificates of the authorities that are believed; `None` for those of the system.
    pub tls_ca: Option<String>,
    /// The name of the primary that sentinels watch.
    pub sentinel_primary: Option<String>,
}

impl RedisSettings {
    /// One server or several, and for the rest what holds where nothing is said.
    #[must_use]
    pub fn at(nodes: Vec<String>) -> RedisSettings {
        RedisSettings {
            nodes,
            mode: RedisMode::default(),
            deadline_ns: 20_000_000,
            on_failure: OnFailure::default(),
            fallback_share: (1, 2),
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

/// Where a secret is. It is never part of the file.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// In this environment variable.
    Environment(String),
    /// In this file.
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

/// The key of a deployment: with it the values of secret identities are hashed before they become keys. All
/// instances that share a store have the same one.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(pub Vec<u8>);

/// Never shows the key.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(..)")
    }
}

/// What the nodes are to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedisMode {
    /// One server.
    #[default]
    Standalone,
    /// Sentinels that know the server.
    Sentinel,
    /// A cluster.
    Cluster,
}

/// What happens to a check when the store fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It passes.
    Open,
    /// It is refused.
    Closed,
    /// This instance counts on its own, with its share of the limit.
    #[default]
    Local,
}
