use super::Reader;
use super::members::Members;
use super::values::set;
use crate::check::codes;
use crate::model::{
    AccessList, FieldSet, MemorySettings, OnFailure, Paths, RedisMode, RedisSettings, Reset, ResponseFields, Secret,
    SnapshotSettings, StoreSettings, TrailingSlash, WhenFull,
};
use crate::yaml::schema::{Kind, Shape, defaulted, field, names, required, shape};
use crate::yaml::tree::Node;

pub(super) const ON_FAILURE: [(&str, OnFailure); 3] =
    [("open", OnFailure::Open), ("closed", OnFailure::Closed), ("local", OnFailure::Local)];
pub(super) const FIELD_SETS: [(&str, FieldSet); 2] = [("ietf", FieldSet::Ietf), ("x-ratelimit", FieldSet::XRateLimit)];
pub(super) const RESETS: [(&str, Reset); 2] = [("epoch", Reset::Epoch), ("delta", Reset::Delta)];
const TRAILING_SLASHES: [(&str, TrailingSlash); 2] = [("ignore", TrailingSlash::Ignore), ("keep", TrailingSlash::Keep)];
const WHEN_FULL: [(&str, WhenFull); 2] = [("evict", WhenFull::Evict), ("refuse", WhenFull::Refuse)];
const MODES: [(&str, RedisMode); 3] =
    [("standalone", RedisMode::Standalone), ("sentinel", RedisMode::Sentinel), ("cluster", RedisMode::Cluster)];

/// Of `deny` and `allow`.
pub(super) static ACCESS: Shape = Shape {
    others: Some(Kind::OneOrMore(&Kind::Text)),
    ..shape(
        "access",
        "Clients by address, or by the values of other identities, in which `*` stands for anything.",
        &[field("client_ip", Kind::OneOrMore(&Kind::Network), "Addresses and networks.")],
    )
};

pub(super) static PATHS: Shape = shape(
    "paths",
    "How paths are made comparable, besides what is always done.",
    &[
        defaulted(
            "trailing_slash",
            Kind::Words(&names(&TRAILING_SLASHES)),
            "Whether `/login/` is `/login`.",
            r#""ignore""#,
        ),
        defaulted("ignore_case", Kind::Bool, "Whether `/Login` is `/login`.", "false"),
    ],
);

pub(super) static STORE: Shape = Shape {
    one_of: &["memory", "redis"],
    ..shape(
        "store",
        "Where counters live.",
        &[
            field("memory", Kind::Object(&MEMORY), "In this process."),
            field("redis", Kind::Object(&REDIS), "In Redis, Valkey or a cluster of them."),
        ],
    )
};

pub(super) static MEMORY: Shape = shape(
    "memory",
    "How much memory counters may take, and whether they outlive the process.",
    &[
        defaulted("entries", Kind::Number { min: 1, max: MAX_ENTRIES }, "So many keys.", "1000000"),
        defaulted(
            "when_full",
            Kind::Words(&names(&WHEN_FULL)),
            "What happens to a new key when all of them are live.",
            r#""evict""#,
        ),
        field("snapshot", Kind::Text, "The file they are written to, so that a restart does not refill limits."),
        defaulted("every", Kind::Duration, "How often the snapshot is written.", r#""30s""#),
    ],
);

/// 16 bytes each: 1 TiB.
pub(super) const MAX_ENTRIES: u64 = 1 << 36;

pub(super) static REDIS: Shape = Shape {
    refused: &[("password", "name an environment variable with `password_env`, or a file with `password_file`")],
    ..shape(
        "redis",
        "How Redis is reached, and what happens when it is not.",
        &[
            required("nodes", Kind::OneOrMore(&Kind::Text), "`host:port` of each."),
            defaulted("mode", Kind::Words(&names(&MODES)), "What they are to each other.", r#""standalone""#),
            defaulted("deadline", Kind::Duration, "How long a check may take.", r#""20ms""#),
            defaulted(
                "on_failure",
                Kind::Words(&names(&ON_FAILURE)),
                "What happens to a check that fails.",
                r#""local""#,
            ),
            defaulted(
                "fallback_share",
                Kind::Pattern("^[0-9]+/[0-9]+$"),
                "Which share of each limit one instance grants on its own.",
                r#""1/2""#,
            ),
            defaulted("prefix", Kind::Text, "What all keys begin with.", r#""tollgate:""#),
            defaulted("database", Kind::Number { min: 0, max: 65_535 }, "The number of the database.", "0"),
            field("username", Kind::Text, "The user of the access list."),
            field("password_env", Kind::Text, "The environment variable with the password."),
            field("password_file", Kind::Text, "The file with the password."),
            defaulted("tls", Kind::Bool, "Whether connections are encrypted.", "false"),
            field(
                "tls_ca",
                Kind::Text,
                "The file with the certificates of the authorities that are believed, instead of the system's.",
            ),
            field("sentinel_primary", Kind::Text, "The name of the primary that the sentinels watch."),
        ],
    )
};

impl Reader<'_> {
    /// `deny` or `allow`.
    pub(super) fn access(&mut self, node: Option<&Node>) -> AccessList {
        let mut list = AccessList::default();
        let Some(members) = node.and_then(|node| self.members(node, &ACCESS)) else { return list };
        set(&mut list.client_ip, members.get("client_ip").map(|node| self.networks(node)));
        for member in members.others() {
            list.identities.push((member.name.to_string(), self.patterns(&member.value)));
        }
        list
    }

    pub(super) fn paths(&mut self, top: &Members<'_>) -> Paths {
        let mut paths = Paths::default();
        let Some(members) = top.get("paths").and_then(|node| self.members(node, &PATHS)) else { return paths };
        set(
            &mut paths.trailing_slash,
            members.get("trailing_slash").and_then(|node| self.word(node, &TRAILING_SLASHES)),
        );
        set(&mut paths.ignore_case, members.get("ignore_case").and_then(|node| self.bool(node)));
        paths
    }

    pub(super) fn response_fields(&mut self, top: &Members<'_>) -> ResponseFields {
        let mut fields = ResponseFields::default();
        set(&mut fields.sets, top.get("headers").map(|node| self.field_sets(node)));
        set(&mut fields.reset, top.get("reset").and_then(|node| self.word(node, &RESETS)));
        set(&mut fields.jitter_ns, top.get("jitter").and_then(|node| self.duration(node)));
        fields
    }

    fn field_sets(&mut self, node: &Node) -> Vec<FieldSet> {
        let items = self.items(node, "a list of `ietf` and `x-ratelimit`, or [] for none").unwrap_or_default();
        let asked: Vec<FieldSet> = items.iter().filter_map(|item| self.word(item, &FIELD_SETS)).collect();
        // Asking twice is not asking for more.
        FIELD_SETS.into_iter().map(|(_, set)| set).filter(|set| asked.contains(set)).collect()
    }

    pub(super) fn store(&mut self, node: Option<&Node>) -> StoreSettings {
        let Some(node) = node else { return StoreSettings::default() };
        if node.scalar().is_some_and(|scalar| &*scalar.text == "memory") {
            return StoreSettings::default();
        }
        if let Some(scalar) = node.scalar().filter(|scalar| !scalar.is_null()) {
            let is_redis = scalar.text.eq_ignore_ascii_case("redis");
            let hint =
                if is_redis { "say where it is: `store: { redis: { nodes: [redis.internal:6379] } }`" } else { "" };
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

    fn memory(&mut self, node: &Node) -> MemorySettings {
        let mut memory = MemorySettings::default();
        let Some(members) = self.members(node, &MEMORY) else { return memory };
        set(&mut memory.entries, members.get("entries").and_then(|node| self.number(node, 1..=MAX_ENTRIES)));
        set(&mut memory.when_full, members.get("when_full").and_then(|node| self.word(node, &WHEN_FULL)));
        memory.snapshot = self.snapshot(&members);
        memory
    }

    fn snapshot(&mut self, members: &Members<'_>) -> Option<SnapshotSettings> {
        let file = self.optional_text(members, "snapshot").map(|name| self.beside_the_policy(name));
        let every_ns = members.get("every").and_then(|node| self.duration(node));
        if members.get("every").is_some() && members.get("snapshot").is_none() {
            let message = "`every` says how often a snapshot is written, and there is none";
            self.misplaced(members.name_span("every"), message, "add `snapshot: FILE`, or leave out `every`");
        }
        let mut snapshot = SnapshotSettings::to(file?);
        set(&mut snapshot.every_ns, every_ns);
        Some(snapshot)
    }

    fn redis(&mut self, node: &Node) -> Option<RedisSettings> {
        let members = self.members(node, &REDIS)?;
        let nodes = self.texts(members.get("nodes")?, "a node such as redis.internal:6379");
        if nodes.is_empty() {
            // Which has been told.
            return None;
        }
        let mut redis = RedisSettings::at(nodes);
        set(&mut redis.mode, members.get("mode").and_then(|node| self.word(node, &MODES)));
        set(&mut redis.deadline_ns, members.get("deadline").and_then(|node| self.duration(node)));
        set(&mut redis.on_failure, members.get("on_failure").and_then(|node| self.word(node, &ON_FAILURE)));
        set(&mut redis.fallback_share, members.get("fallback_share").and_then(|node| self.share(node)));
        set(&mut redis.prefix, self.optional_text(&members, "prefix"));
        let database = members.get("database").and_then(|node| self.number(node, 0..=65_535));
        set(&mut redis.database, database.and_then(|number| u32::try_from(number).ok()));
        redis.username = self.optional_text(&members, "username");
        redis.password = self.password(&members);
        set(&mut redis.tls, members.get("tls").and_then(|node| self.bool(node)));
        redis.tls_ca = self.optional_text(&members, "tls_ca").map(|name| self.beside_the_policy(name));
        redis.sentinel_primary = self.optional_text(&members, "sentinel_primary");
        Some(redis)
    }

    fn optional_text(&mut self, members: &Members<'_>, name: &str) -> Option<String> {
        members.get(name).and_then(|node| self.text(node, "a text"))
    }

    /// Where the password is. Who connects reads it, each time anew.
    fn password(&mut self, members: &Members<'_>) -> Option<Secret> {
        let variable = self.optional_text(members, "password_env").map(Secret::Environment);
        let file = self.optional_text(members, "password_file").map(|name| Secret::File(self.beside_the_policy(name)));
        if variable.is_some() && file.is_some() {
            let message = "`password_file` cannot stand beside `password_env`";
            self.error(codes::CHOOSE_ONE, members.name_span("password_file"), message, "keep exactly one of the two");
        }
        variable.or(file)
    }

    /// Names of files are relative to the policy's own place.
    fn beside_the_policy(&self, name: String) -> String {
        let Some(base_dir) = self.base_dir else { return name };
        base_dir.join(&name).to_str().map_or(name, str::to_owned)
    }

    fn share(&mut self, node: &Node) -> Option<(u32, u32)> {
        let text = self.text(node, "a share such as 1/2")?;
        let share = text
            .split_once('/')
            .and_then(|(part, whole)| Some((part.trim().parse().ok()?, whole.trim().parse().ok()?)));
        if share.is_none() {
            let message = format!("expected a share such as 1/2, found {}", node.described());
            self.error(codes::BAD_SHARE, node.span, message, "write two whole numbers with a `/` between them");
        }
        share
    }
}
