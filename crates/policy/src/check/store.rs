use tollgate_core::MAX_SPAN_NS;

use super::problems::Problems;
use super::words::quoted;
use super::{codes, syntax};
use crate::model::{MemorySettings, Policy, RedisMode, RedisSettings, StoreSettings};
use crate::problem::Place;

pub(super) fn check(policy: &Policy, problems: &mut Problems) {
    syntax::range(
        policy.fields.jitter_ns,
        0,
        MAX_SPAN_NS,
        "the jitter, in nanoseconds,",
        Place::top().member("jitter"),
        problems,
    );
    let place = Place::top().member("store");
    match &policy.store {
        StoreSettings::Memory(memory) => self::memory(memory, &place.member("memory"), problems),
        StoreSettings::Redis(redis) => self::redis(redis, &place.member("redis"), problems),
    }
}

/// More often, a disk would have little else to do.
const SHORTEST_EVERY_NS: u64 = 100_000_000;

fn memory(memory: &MemorySettings, place: &Place, problems: &mut Problems) {
    syntax::range(memory.entries, 1, u64::MAX, "the number of entries", place.member("entries"), problems);
    let Some(snapshot) = &memory.snapshot else { return };
    syntax::text(&snapshot.file, "the name of the snapshot", place.member("snapshot"), problems);
    if !(SHORTEST_EVERY_NS..=MAX_SPAN_NS).contains(&snapshot.every_ns) {
        let message = "from one snapshot to the next it must be from 100ms to 36 years";
        problems.add(codes::OUT_OF_RANGE, place.member("every"), message, "30s is what holds where nothing is said");
    }
}

fn redis(redis: &RedisSettings, place: &Place, problems: &mut Problems) {
    syntax::not_empty(&redis.nodes, "node", &place.member("nodes"), problems);
    for (at, node) in redis.nodes.iter().enumerate().filter(|(_, node)| !is_node(node)) {
        let message = format!("{} is not a host and a port", quoted(node));
        problems.add(
            codes::BAD_NODE,
            place.member("nodes").item(at),
            message,
            "write host:port, such as redis.internal:6379",
        );
    }
    syntax::range(
        redis.deadline_ns,
        1,
        MAX_SPAN_NS,
        "the deadline, in nanoseconds,",
        place.member("deadline"),
        problems,
    );
    let (part, whole) = redis.fallback_share;
    if part == 0 || part > whole {
        let message = format!("a share must be more than 0 and at most 1, and is {part}/{whole}");
        let hint = "with four instances, 1/4 keeps all of them together within the limit";
        problems.add(codes::BAD_SHARE, place.member("fallback_share"), message, hint);
    }
    mode(redis, place, problems);
}

fn mode(redis: &RedisSettings, place: &Place, problems: &mut Problems) {
    let (at, message, hint) = match redis.mode {
        RedisMode::Sentinel if redis.sentinel_primary.is_none() => {
            ("mode", "sentinels watch primaries by name, and none is named", "add `sentinel_primary: NAME`")
        }
        RedisMode::Standalone | RedisMode::Cluster if redis.sentinel_primary.is_some() => (
            "sentinel_primary",
            "`sentinel_primary` goes with `mode: sentinel` only",
            "add `mode: sentinel`, or leave it out",
        ),
        _ if redis.tls_ca.is_some() && !redis.tls => {
            ("tls_ca", "authorities are named, but connections are not encrypted", "add `tls: true`, or leave it out")
        }
        RedisMode::Cluster if redis.database != 0 => {
            ("database", "a cluster has no numbered databases", "leave `database` out")
        }
        RedisMode::Standalone if redis.nodes.len() > 1 => (
            "nodes",
            "several nodes, but `mode: standalone` is one server",
            "add `mode: cluster` or `mode: sentinel`, or keep one node",
        ),
        _ => return,
    };
    problems.add(codes::BAD_STORE, place.member(at), message, hint);
}

/// `host:port`, where the host may be an IPv6 address in brackets.
fn is_node(node: &str) -> bool {
    let Some((host, port)) = node.rsplit_once(':') else { return false };
    let is_bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    let is_name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    (is_bracketed || is_name) && port.parse::<u16>().is_ok_and(|port| port > 0)
}
