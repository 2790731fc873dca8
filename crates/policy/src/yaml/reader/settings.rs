use super::Reader;
use super::members::Members;
use super::values::set;
use crate::check::codes;
use crate::model::{
    AccessList, FieldSet, MemorySettings, OnFailure, Paths, RedisMode, RedisSettings, Reset, ResponseFields, Secret,
    SecretKey, SnapshotSettings, StoreSettings, TrailingSlash, WhenFull,
};
use crate::yaml::shape;
use crate::yaml::tree::{Node, Value};

pub(super) const ON_FAILURE: [(&str, OnFailure); 3] =
    [("open", OnFailure::Open), ("closed", OnFailure::Closed), ("local", OnFailure::Local)];

impl Reader<'_> {
    /// `deny` or `allow`.
    pub(super) fn access(&mut self, node: Option<&Node>) -> AccessList {
        let mut list = AccessList::default();
        let Some(members) = node.and_then(|node| self.members(node, &shape::ACCESS)) else { return list };
        set(&mut list.client_ip, members.get("client_ip").map(|node| self.networks(node)));
        for member in members.others() {
            list.identities.push((member.name.to_string(), self.patterns(&member.value)));
        }
        list
    }

    /// The key with which secret values are hashed.
    pub(super) fn secret_key(&mut self, top: &Members<'_>) -> Option<SecretKey> {
        let members = top.get("secrets").and_then(|node| self.members(node, &shape::SECRETS))?;
        self.key(&members).map(SecretKey)
    }

    pub(super) fn paths(&mut self, top: &Members<'_>) -> Paths {
        let mut paths = Paths::default();
        let Some(members) = top.get("paths").and_then(|node| self.members(node, &shape::PATHS)) else { return paths };
        let words = [("ignore", TrailingSlash::Ignore), ("keep", TrailingSlash::Keep)];
        set(&mut paths.trailing_slash, members.get("trailing_slash").and_then(|node| self.word(node, &words)));
        set(&mut paths.ignore_case, members.get("ignore_case").and_then(|node| self.bool(node)));
        paths
    }

    pub(super) fn response_fields(&mut self, top: &Members<'_>) -> ResponseFields {
        let mut fields = ResponseFields::default();
        set(&mut fields.sets, top.get("headers").map(|node| self.field_sets(node)));
        let words = [("epoch", Reset::Epoch), ("delta", Reset::Delta)];
        set(&mut fields.reset, top.get("reset").and_then(|node| self.word(node, &words)));
        set(&mut fields.jitter_ns, top.get("jitter").and_then(|node| self.duration(node)));
        fields
    }

    fn field_sets(&mut self, node: &Node) -> Vec<FieldSet> {
        let Value::List(items) = &node.value else {
            self.wrong_type(node, "a list of `ietf` and `x-ratelimit`, or [] for none");
            return Vec::new();
        };
        let words = [("ietf", FieldSet::Ietf), ("x-ratelimit", FieldSet::XRateLimit)];
        let asked: Vec<FieldSet> = items.iter().filter_map(|item| self.word(item, &words)).collect();
        // Asking twice is not asking for more.
        words.into_iter().map(|(_, set)| set).filter(|set| asked.contains(set)).collect()
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
        let Some(members) = self.members(node, &shape::STORE) else { return StoreSettings::default() };
        if let Some(node) = members.get("redis") {
            return self.redis(node).map_or_else(StoreSettings::default, StoreSettings::Redis);
        }
        members.get("memory").map_or_else(StoreSettings::default, |node| StoreSettings::Memory(self.memory(node)))
    }

    fn memory(&mut self, node: &Node) -> MemorySettings {
        let mut memory = MemorySettings::default();
        let Some(members) = self.members(node, &shape::MEMORY) else { return memory };
        set(&mut memory.entries, members.get("entries").and_then(|node| self.number(node, 1..=shape::MAX_ENTRIES)));
        let words = [("evict", WhenFull::Evict), ("refuse", WhenFull::Refuse)];
        set(&mut memory.when_full, members.get("when_full").and_then(|node| self.word(node, &words)));
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
        let members = self.members(node, &shape::REDIS)?;
        let nodes = self.texts(members.get("nodes")?, "a node such as redis.internal:6379");
        if nodes.is_empty() {
            // Which has been told.
            return None;
        }
        let mut redis = RedisSettings::at(nodes);
        let modes =
            [("standalone", RedisMode::Standalone), ("sentinel", RedisMode::Sentinel), ("cluster", RedisMode::Cluster)];
        set(&mut redis.mode, members.get("mode").and_then(|node| self.word(node, &modes)));
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
