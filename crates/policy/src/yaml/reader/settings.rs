use super::PolicyReader;
use super::members::KnownMembers;
use super::values::set;
use crate::check::codes;
use crate::check::words::quoted;
use crate::model::{
    AccessList, Consistency, FailureMode, FieldSet, MemorySettings, Paths, RedisSettings, RedisTopology, ResetFormat,
    ResponseFields, Secret, SnapshotSettings, StoreSettings, TrailingSlash, WhenFullSetting,
};
use crate::pem::certificate_problem;
use crate::yaml::NamedFile;
use crate::yaml::schema::{MapSchema, MemberSchema, ValueSchema, defaulted, field, names, required, shape};
use crate::yaml::tree::YamlNode;

pub(super) const ON_FAILURE: [(&str, FailureMode); 3] =
    [("open", FailureMode::Open), ("closed", FailureMode::Closed), ("local", FailureMode::Local)];
pub(super) const CONSISTENCIES: [(&str, Consistency); 3] =
    [("exact", Consistency::Exact), ("leased", Consistency::Leased), ("regional", Consistency::Regional)];
pub(super) const FIELD_SETS: [(&str, FieldSet); 2] = [("ietf", FieldSet::Ietf), ("x-ratelimit", FieldSet::XRateLimit)];
pub(super) const RESETS: [(&str, ResetFormat); 2] = [("epoch", ResetFormat::Epoch), ("delta", ResetFormat::Delta)];
const TRAILING_SLASHES: [(&str, TrailingSlash); 2] = [("ignore", TrailingSlash::Ignore), ("keep", TrailingSlash::Keep)];
const WHEN_FULL: [(&str, WhenFullSetting); 2] =
    [("evict", WhenFullSetting::Evict), ("refuse", WhenFullSetting::Refuse)];
pub(super) const MODES: [(&str, RedisTopology); 3] = [
    ("standalone", RedisTopology::Standalone),
    ("sentinel", RedisTopology::Sentinel),
    ("cluster", RedisTopology::Cluster),
];

/// The members of `deny` and `allow`.
pub(super) static ACCESS: MapSchema = MapSchema {
    others: Some(ValueSchema::OneOrMore(&ValueSchema::Text)),
    ..shape(
        "access",
        "Clients by address, or by the values of other identities, in which `*` matches any characters.",
        &[field("client_ip", ValueSchema::OneOrMore(&ValueSchema::Network), "Addresses and networks.")],
    )
};

pub(super) static PATHS: MapSchema = MapSchema {
    mistaken: &[("case_sensitive", "write `ignore_case: true` to ignore the case of letters")],
    ..shape(
        "paths",
        "Options of path normalisation, in addition to those that always apply.",
        &[
            defaulted(
                "trailing_slash",
                ValueSchema::Words(&names(&TRAILING_SLASHES)),
                "Whether `/login/` is `/login`.",
                r#""ignore""#,
            ),
            defaulted("ignore_case", ValueSchema::Bool, "Whether `/Login` is `/login`.", "false"),
        ],
    )
};

pub(super) static STORE: MapSchema = MapSchema {
    one_of: &["memory", "redis"],
    mistaken: &[
        (
            "type",
            "write the settings under the name of the store, as in `store: { redis: { nodes: [redis.internal:6379] } }`",
        ),
        ("nodes", "write it under `redis`, as in `store: { redis: { nodes: [redis.internal:6379] } }`"),
        ("url", "write it under `redis`, as in `store: { redis: { nodes: [redis.internal:6379] } }`"),
        ("valkey", "write `redis`: it is for Valkey too"),
        ("entries", "write it under `memory`, as in `store: { memory: { entries: 1000000 } }`"),
        ("consistency", "write it under `redis`; with the memory store, write `consistency: regional` in the rules"),
    ],
    ..shape(
        "store",
        "Where counters are stored.",
        &[
            field("memory", ValueSchema::Object(&MEMORY), "In this process."),
            field("redis", ValueSchema::Object(&REDIS), "In Redis or Valkey, standalone or as a cluster."),
        ],
    )
};

pub(super) static MEMORY: MapSchema = shape(
    "memory",
    "The size of the memory store, and its snapshots.",
    &[
        defaulted(
            "entries",
            ValueSchema::Number { min: 1, max: MAX_ENTRIES },
            "The most keys that are stored.",
            "1000000",
        ),
        defaulted(
            "when_full",
            ValueSchema::Words(&names(&WHEN_FULL)),
            "What happens to a new key when the store is full of live keys.",
            r#""evict""#,
        ),
        field(
            "snapshot",
            ValueSchema::Text,
            "The file for snapshots of the counters, so that a restart does not refill limits.",
        ),
        defaulted("every", ValueSchema::Duration, "How often the snapshot is written.", r#""30s""#),
    ],
);

/// The most entries of the memory store. At 16 bytes each, they take 1 TiB.
pub(super) const MAX_ENTRIES: u64 = 1 << 36;

// The members of a connection to Redis.
pub(super) const NODES: MemberSchema =
    required("nodes", ValueSchema::OneOrMore(&ValueSchema::Text), "The nodes, each as `host:port`.");
pub(super) const MODE: MemberSchema =
    defaulted("mode", ValueSchema::Words(&names(&MODES)), "How the nodes work together.", r#""standalone""#);
pub(super) const PREFIX: MemberSchema =
    defaulted("prefix", ValueSchema::Text, "The prefix of all keys.", r#""tollgate:""#);
pub(super) const DATABASE: MemberSchema =
    defaulted("database", ValueSchema::Number { min: 0, max: 65_535 }, "The number of the database.", "0");
pub(super) const USERNAME: MemberSchema = field("username", ValueSchema::Text, "The user name (Redis ACL).");
pub(super) const PASSWORD_ENV: MemberSchema =
    field("password_env", ValueSchema::Text, "The environment variable with the password.");
pub(super) const PASSWORD_FILE: MemberSchema =
    field("password_file", ValueSchema::Text, "The file with the password, which is read again for each connection.");
pub(super) const TLS: MemberSchema = defaulted("tls", ValueSchema::Bool, "Whether connections use TLS.", "false");
pub(super) const TLS_CA: MemberSchema = field(
    "tls_ca",
    ValueSchema::Text,
    "The file with the certificates of the trusted authorities (CA), instead of the system's.",
);
pub(super) const SENTINEL_PRIMARY: MemberSchema =
    field("sentinel_primary", ValueSchema::Text, "The name of the primary that the sentinels monitor.");

/// Members that would hold a password.
pub(super) const REFUSED: &[(&str, &str)] =
    &[("password", "name an environment variable with `password_env`, or a file with `password_file`")];

pub(super) static REDIS: MapSchema = MapSchema {
    refused: REFUSED,
    mistaken: &[
        ("url", "write the host and port in `nodes`, as in `nodes: [redis.internal:6379]`"),
        ("address", "write the host and port in `nodes`, as in `nodes: [redis.internal:6379]`"),
        ("host", "write the host and port in `nodes`, as in `nodes: [redis.internal:6379]`"),
        ("hosts", "write the hosts and ports in `nodes`, as in `nodes: [redis.internal:6379]`"),
        ("port", "write the host and port in `nodes`, as in `nodes: [redis.internal:6379]`"),
        ("timeout", "write `deadline`, as in `deadline: 20ms`"),
        ("db", "write `database`, as in `database: 0`"),
        ("user", "write `username`"),
        ("cluster", "write `mode: cluster`"),
        ("sentinel", "write `mode: sentinel`, and `sentinel_primary: NAME`"),
        ("key_prefix", "write `prefix`"),
    ],
    ..shape(
        "redis",
        "The connection to Redis, and what happens when it fails.",
        &[
            NODES,
            MODE,
            defaulted("deadline", ValueSchema::Duration, "The longest time that a check may take.", r#""20ms""#),
            defaulted(
                "on_failure",
                ValueSchema::Words(&names(&ON_FAILURE)),
                "How requests are decided when Redis fails.",
                r#""local""#,
            ),
            defaulted(
                "fallback_share",
                ValueSchema::Pattern("^[0-9]+/[0-9]+$"),
                "The share of each limit that one instance grants while Redis is unreachable.",
                r#""1/2""#,
            ),
            defaulted(
                "consistency",
                ValueSchema::Words(&names(&CONSISTENCIES)),
                "Whether the store decides every request, instances lease tokens ahead of requests, or regions share limits.",
                r#""exact""#,
            ),
            defaulted(
                "lease",
                ValueSchema::Duration,
                "The length of a generation of leases. A lease is counted for one to two generations.",
                r#""1s""#,
            ),
            PREFIX,
            DATABASE,
            USERNAME,
            PASSWORD_ENV,
            PASSWORD_FILE,
            TLS,
            TLS_CA,
            SENTINEL_PRIMARY,
        ],
    )
};

impl PolicyReader<'_> {
    /// Reads `deny` or `allow`.
    pub(super) fn access(&mut self, node: Option<&YamlNode>) -> AccessList {
        let mut list = AccessList::default();
        let Some(members) = node.and_then(|node| self.members(node, &ACCESS)) else { return list };
        set(&mut list.client_ip, members.get("client_ip").map(|node| self.networks(node)));
        for member in members.others() {
            list.identities.push((member.name.to_string(), self.patterns(&member.value)));
        }
        list
    }

    pub(super) fn paths(&mut self, top: &KnownMembers<'_>) -> Paths {
        let mut paths = Paths::default();
        let Some(members) = top.get("paths").and_then(|node| self.members(node, &PATHS)) else { return paths };
        set(
            &mut paths.trailing_slash,
            members.get("trailing_slash").and_then(|node| self.word(node, &TRAILING_SLASHES)),
        );
        set(&mut paths.ignore_case, members.get("ignore_case").and_then(|node| self.bool(node)));
        paths
    }

    pub(super) fn response_fields(&mut self, top: &KnownMembers<'_>) -> ResponseFields {
        let mut fields = ResponseFields::default();
        set(&mut fields.sets, top.get("headers").map(|node| self.field_sets(node)));
        set(&mut fields.reset, top.get("reset").and_then(|node| self.word(node, &RESETS)));
        set(&mut fields.jitter_ns, top.get("jitter").and_then(|node| self.duration(node)));
        fields
    }

    fn field_sets(&mut self, node: &YamlNode) -> Vec<FieldSet> {
        let items =
            self.items(node, "a list of `ietf` and `x-ratelimit`, such as [ietf], or [] for none").unwrap_or_default();
        let listed: Vec<FieldSet> = items.iter().filter_map(|item| self.word(item, &FIELD_SETS)).collect();
        // A repeated set is sent once.
        FIELD_SETS.into_iter().map(|(_, set)| set).filter(|set| listed.contains(set)).collect()
    }

    pub(super) fn store(&mut self, node: Option<&YamlNode>) -> StoreSettings {
        let Some(node) = node else { return StoreSettings::default() };
        if node.scalar().is_some_and(|scalar| &*scalar.text == "memory") {
            return StoreSettings::default();
        }
        if let Some(scalar) = node.scalar().filter(|scalar| !scalar.is_null()) {
            let is_redis = scalar.text.eq_ignore_ascii_case("redis");
            let at = scalar.text.strip_prefix("redis://").map(|rest| rest.rsplit('@').next().unwrap_or(rest));
            let at = at.map(|rest| rest.split('/').next().unwrap_or(rest)).filter(|_| !scalar.text.contains('@'));
            let address = at.filter(|address| !address.is_empty()).unwrap_or("redis.internal:6379");
            let is_redis = is_redis || scalar.text.to_ascii_lowercase().starts_with("redis");
            let hint = if is_redis {
                format!("name its nodes: `store: {{ redis: {{ nodes: [{address}] }} }}`")
            } else {
                "write `store: memory`, or `store: { redis: { nodes: [redis.internal:6379] } }`".to_owned()
            };
            let message = format!("expected `memory`, or a map with `memory` or `redis`, found {}", node.described());
            self.error(codes::UNKNOWN_WORD, node.span, message, hint);
            return StoreSettings::default();
        }
        let Some(members) = self.members(node, &STORE) else { return StoreSettings::default() };
        if let Some(node) = members.get("redis") {
            return self.redis(node).map_or_else(StoreSettings::default, StoreSettings::Redis);
        }
        members.get("memory").map_or_else(StoreSettings::default, |node| StoreSettings::Memory(self.memory(node)))
    }

    fn memory(&mut self, node: &YamlNode) -> MemorySettings {
        let mut memory = MemorySettings::default();
        let Some(members) = self.members(node, &MEMORY) else { return memory };
        set(&mut memory.entries, members.get("entries").and_then(|node| self.number(node, 1..=MAX_ENTRIES)));
        set(&mut memory.when_full, members.get("when_full").and_then(|node| self.word(node, &WHEN_FULL)));
        memory.snapshot = self.snapshot(&members);
        memory
    }

    fn snapshot(&mut self, members: &KnownMembers<'_>) -> Option<SnapshotSettings> {
        let file = self.optional_text(members, "snapshot").map(|name| self.in_base_dir(name));
        let every_ns = members.get("every").and_then(|node| self.duration(node));
        if members.get("every").is_some() && members.get("snapshot").is_none() {
            let message = "`every` needs a snapshot, and `snapshot` is missing";
            self.misplaced(members.name_span("every"), message, "add `snapshot: FILE`, or remove `every`");
        }
        let mut snapshot = SnapshotSettings::to(file?);
        set(&mut snapshot.every_ns, every_ns);
        Some(snapshot)
    }

    fn redis(&mut self, node: &YamlNode) -> Option<RedisSettings> {
        let members = self.members(node, &REDIS)?;
        let nodes = self.texts(members.get("nodes")?, "a node such as redis.internal:6379");
        if nodes.is_empty() {
            // The empty list was reported.
            return None;
        }
        let mut redis = RedisSettings::at(nodes);
        set(&mut redis.mode, members.get("mode").and_then(|node| self.word(node, &MODES)));
        set(&mut redis.deadline_ns, members.get("deadline").and_then(|node| self.duration(node)));
        set(&mut redis.on_failure, members.get("on_failure").and_then(|node| self.word(node, &ON_FAILURE)));
        set(&mut redis.fallback_share, members.get("fallback_share").and_then(|node| self.share(node)));
        set(&mut redis.consistency, members.get("consistency").and_then(|node| self.consistency(node)));
        set(&mut redis.lease_ns, members.get("lease").and_then(|node| self.duration(node)));
        set(&mut redis.prefix, self.optional_text(&members, "prefix"));
        set(&mut redis.database, self.database(&members));
        redis.username = self.optional_text(&members, "username");
        redis.password = self.password(&members);
        set(&mut redis.tls, members.get("tls").and_then(|node| self.bool(node)));
        redis.tls_ca = self.authorities(&members);
        redis.sentinel_primary = self.optional_text(&members, "sentinel_primary");
        Some(redis)
    }

    /// Reads `exact`, `leased` or `regional`.
    pub(super) fn consistency(&mut self, node: &YamlNode) -> Option<Consistency> {
        self.word(node, &CONSISTENCIES)
    }

    pub(super) fn optional_text(&mut self, members: &KnownMembers<'_>, name: &str) -> Option<String> {
        members.get(name).and_then(|node| self.text(node, "a text"))
    }

    /// Reads where the password is. A file is read again for each connection, a variable once.
    pub(super) fn password(&mut self, members: &KnownMembers<'_>) -> Option<Secret> {
        let variable = self.optional_text(members, "password_env").map(Secret::Environment);
        let file = self.optional_text(members, "password_file").map(|name| Secret::File(self.in_base_dir(name)));
        if variable.is_some() && file.is_some() {
            let message = "`password_file` cannot be combined with `password_env`";
            self.error(codes::CHOOSE_ONE, members.name_span("password_file"), message, "keep exactly one of the two");
        }
        variable.or(file)
    }

    /// Reads the name of the file of trusted authorities. A file that does not exist here is not checked: the policy may
    /// be used on another machine.
    pub(super) fn authorities(&mut self, members: &KnownMembers<'_>) -> Option<String> {
        let node = members.get("tls_ca")?;
        let name = self.text(node, "a text")?;
        let path = self.in_base_dir(name);
        // Without a directory, the policy does not come from a file and reads none.
        if self.base_dir.is_some() && std::fs::exists(&path).unwrap_or(false) {
            match NamedFile::read(path.clone().into()).1 {
                Ok(pem) => {
                    if let Some(problem) = certificate_problem(&pem) {
                        let message = format!("the file {} {}", quoted(&path), problem.what);
                        self.error(codes::BAD_CERTIFICATE, node.span, message, problem.hint);
                    }
                }
                Err(why) => {
                    let message = format!("the file {} cannot be read: {why}", quoted(&path));
                    self.error(codes::UNREADABLE_FILE, node.span, message, "name a file of certificates in PEM");
                }
            }
        }
        Some(path)
    }

    /// Resolves a file name, which is relative to the directory of the policy.
    fn in_base_dir(&self, name: String) -> String {
        let Some(base_dir) = self.base_dir else { return name };
        base_dir.join(&name).to_str().map_or(name, str::to_owned)
    }

    fn share(&mut self, node: &YamlNode) -> Option<(u32, u32)> {
        let text = self.text(node, "a share such as 1/2")?;
        let share = text
            .split_once('/')
            .and_then(|(part, whole)| Some((part.trim().parse().ok()?, whole.trim().parse().ok()?)));
        if share.is_none() {
            let message = format!("expected a share such as 1/2, found {}", node.described());
            self.error(codes::BAD_SHARE, node.span, message, "write a fraction of two whole numbers, such as 1/2");
        }
        share
    }
}
