//! Checks the settings of the store, and that the memory store can hold every log and list of permits.

use std::time::Duration;

use tollgate_core::{Concurrency, MAX_SPAN_NS, Quota, QuotaError, Rate, SlidingLog, Tick};

use super::{Reporter, codes, grants, quoted};
use crate::model::{
    GlobalServer, MAX_LEASE_GENERATION_NS, MIN_LEASE_GENERATION_NS, MemorySettings, OnLimit, Policy, RedisSettings,
    RedisTopology, StoreSettings,
};

pub(super) fn check(policy: &Policy, top: &mut Reporter<'_>) {
    top.member("jitter").range(policy.fields.jitter_ns, 0..=MAX_SPAN_NS, "the jitter, in nanoseconds,");
    match &policy.store {
        StoreSettings::Memory(memory) => self::memory(memory, &mut top.member("store").member("memory")),
        StoreSettings::Redis(redis) => self::redis(redis, &mut top.member("store").member("redis")),
    }
    state_sizes(policy, &mut top.member("rules"));
}

const MS_NS: u64 = 1_000_000;

/// The shortest snapshot interval. A shorter one would keep the disk busy.
const MIN_SNAPSHOT_INTERVAL_NS: u64 = 100_000_000;

fn memory(memory: &MemorySettings, here: &mut Reporter<'_>) {
    here.member("entries").range(memory.entries, 1..=u64::MAX, "the number of entries");
    let Some(snapshot) = &memory.snapshot else { return };
    here.member("snapshot").text(&snapshot.file, "the file name of the snapshot");
    if !(MIN_SNAPSHOT_INTERVAL_NS..=MAX_SPAN_NS).contains(&snapshot.every_ns) {
        let message = "the snapshot interval must be from 100ms to 36 years";
        here.member("every").add(codes::OUT_OF_RANGE, message, "remove `every` to use the default, 30s");
    }
}

fn redis(redis: &RedisSettings, here: &mut Reporter<'_>) {
    nodes(&redis.nodes, &mut here.member("nodes"));
    here.member("deadline").range(redis.deadline_ns, 1..=MAX_SPAN_NS, "the deadline, in nanoseconds,");
    let (part, whole) = redis.fallback_share;
    if part == 0 || part > whole {
        let message = format!("a share must be more than 0 and at most 1, found {part}/{whole}");
        let hint = "divide by the number of instances: four instances with 1/4 each stay within the limit together";
        here.member("fallback_share").add(codes::BAD_SHARE, message, hint);
    }
    let is_in_range = (MIN_LEASE_GENERATION_NS..=MAX_LEASE_GENERATION_NS).contains(&redis.lease_ns);
    if !is_in_range || !redis.lease_ns.is_multiple_of(MS_NS) {
        let message = "the lease must be from 100ms to 60s, in whole milliseconds";
        here.member("lease").add(codes::OUT_OF_RANGE, message, "remove `lease` to use the default, 1s");
    }
    let RedisSettings { mode, database, tls, .. } = *redis;
    let (has_ca, has_primary) = (redis.tls_ca.is_some(), redis.sentinel_primary.is_some());
    TopologySettings { mode, nodes: redis.nodes.len(), database, tls, has_ca, has_primary }.check(here);
}

/// Checks the connection to the global server of regions.
pub(super) fn global(global: &GlobalServer, here: &mut Reporter<'_>) {
    nodes(&global.nodes, &mut here.member("nodes"));
    let GlobalServer { mode, database, tls, .. } = *global;
    let (has_ca, has_primary) = (global.tls_ca.is_some(), global.sentinel_primary.is_some());
    TopologySettings { mode, nodes: global.nodes.len(), database, tls, has_ca, has_primary }.check(here);
}

fn nodes(nodes: &[String], here: &mut Reporter<'_>) {
    here.not_empty(nodes, "node");
    for (at, node) in nodes.iter().enumerate().filter(|(_, node)| !is_node(node)) {
        let message = format!("{} is not a host and a port", quoted(node));
        here.item(at).add(codes::BAD_NODE, message, "write host:port, such as redis.internal:6379");
    }
}

/// The settings of a connection that can contradict each other.
struct TopologySettings {
    mode: RedisTopology,
    nodes: usize,
    database: u32,
    tls: bool,
    has_ca: bool,
    has_primary: bool,
}

impl TopologySettings {
    fn check(&self, here: &mut Reporter<'_>) {
        let (at, message, hint) = match self.mode {
            RedisTopology::Sentinel if !self.has_primary => {
                ("mode", "`mode: sentinel` needs `sentinel_primary`, which is missing", "add `sentinel_primary: NAME`")
            }
            RedisTopology::Standalone | RedisTopology::Cluster if self.has_primary => (
                "sentinel_primary",
                "`sentinel_primary` works only with `mode: sentinel`",
                "add `mode: sentinel`, or remove `sentinel_primary`",
            ),
            _ if self.has_ca && !self.tls => {
                ("tls_ca", "`tls_ca` works only with `tls: true`", "add `tls: true`, or remove `tls_ca`")
            }
            RedisTopology::Cluster if self.database != 0 => {
                ("database", "a cluster has no numbered databases", "remove `database`")
            }
            RedisTopology::Standalone if self.nodes > 1 => (
                "nodes",
                "`mode: standalone` is one server, and there are several nodes",
                "add `mode: cluster` or `mode: sentinel`, or keep one node",
            ),
            _ => return,
        };
        here.member(at).add(codes::BAD_STORE, message, hint);
    }
}

/// Whether a text is `host:port`. The host may be an IPv6 address in brackets.
fn is_node(node: &str) -> bool {
    let Some((host, port)) = node.rsplit_once(':') else { return false };
    let is_bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    let is_name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    (is_bracketed || is_name) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Checks that the state of one key fits the store.
fn state_sizes(policy: &Policy, rules: &mut Reporter<'_>) {
    let holds = match &policy.store {
        StoreSettings::Memory(memory) => Some(bytes_for_one_key(memory.entries)),
        StoreSettings::Redis(_) => None,
    };
    rules.each(&policy.rules, |rule, here| {
        if let Some(steps) = &rule.on_limit {
            violations(steps, holds, &mut here.member("on_limit"));
        }
        let Some(holds) = holds else { return };
        grants::each(rule, here, |grant, here, _| {
            grant.quotas().iter().for_each(|quota| too_large(quota, holds, here));
        });
    });
}

/// Returns the bytes that a memory store of `entries` has for the log or the permits of one key. The store divides
/// 1,024 bytes per entry evenly among its shards, of which there are at most 1,024, and each key is in one shard. A
/// test compares it with the store.
fn bytes_for_one_key(entries: u64) -> u64 {
    let slots = entries.saturating_mul(3).div_ceil(2).max(64);
    entries.saturating_mul(1024) / (slots / 64).clamp(1, 1024)
}

/// Returns the fewest entries with which a store has more than `bytes` for one key.
fn entries_for(bytes: u64) -> u64 {
    // From 43,691 entries on, a store has 1,024 shards, and as many bytes for one key as entries. A store of up to 85
    // entries has one shard.
    const ONE_SHARD_BYTES: u64 = 43_000;
    if bytes < ONE_SHARD_BYTES { bytes / 1024 + 1 } else { (bytes + 1).max(43_691) }
}

fn too_large(quota: &Quota, holds: u64, here: &mut Reporter<'_>) {
    let tick = Tick::Nanosecond;
    let log = SlidingLog::new(quota, tick).map(|log| ("log", log.max_heap_bytes()));
    let permits = || Concurrency::new(quota, tick).map(|permits| ("list of permits", permits.max_heap_bytes()));
    if let Some((what, needs)) = log.or_else(permits).filter(|(_, needs)| *needs >= holds) {
        add(what, needs, holds, here);
    }
}

/// Checks the size of the log of violations.
fn violations(steps: &OnLimit, holds: Option<u64>, here: &mut Reporter<'_>) {
    // Without a block, the limiter records `warn_first` violations at once, and 50 times as many within the span.
    let without_block = || steps.warn_first.saturating_mul(51).min(Quota::MAX_LOG.max(steps.warn_first));
    let most = steps.block.map_or_else(without_block, |block| block.after.max(steps.warn_first));
    if most > Quota::MAX_LOG {
        let message = format!("at most {} violations can be counted, found {most}", Quota::MAX_LOG);
        return here.add(codes::TOO_LARGE_FOR_STORE, message, "lower the number");
    }
    let quota = Rate::new(most, Duration::from_nanos(steps.span_ns)).map_err(QuotaError::Rate);
    let log =
        quota.and_then(Quota::sliding_window_log).ok().and_then(|quota| SlidingLog::new(&quota, Tick::Nanosecond));
    if let (Some(holds), Some(log)) = (holds, log)
        && log.max_heap_bytes() >= holds
    {
        add("log of violations", log.max_heap_bytes(), holds, here);
    }
}

fn add(what: &str, needs: u64, holds: u64, here: &mut Reporter<'_>) {
    let message = format!("the {what} of one key may take {needs} bytes, and the store has {holds} bytes for one key");
    let entries = entries_for(needs);
    let other = if what == "log" { ", or choose sliding-window-counter" } else { ", or lower the limit" };
    let hint = format!("set `store: {{ memory: {{ entries: {entries} }} }}`{other}");
    here.add(codes::TOO_LARGE_FOR_STORE, message, hint);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_entries_are_enough() {
        for bytes in (1..300_000).chain([10_000_000, 1 << 40]) {
            assert!(bytes_for_one_key(entries_for(bytes)) > bytes, "{bytes}");
        }
    }
}
