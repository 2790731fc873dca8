//! Logs and permits that a memory store could not hold up to their limit.

use std::time::Duration;

use tollgate_core::{Concurrency, Quota, QuotaError, Rate, SlidingLog, Tick};

use super::periods::quotas;
use super::problems::Problems;
use super::{codes, grants};
use crate::model::{Allowance, OnLimit, Policy, Rule, StoreSettings};
use crate::problem::Place;

pub(super) fn check(policy: &Policy, problems: &mut Problems) {
    let holds = match &policy.store {
        StoreSettings::Memory(memory) => Some(bytes_for_one_key(memory.entries)),
        StoreSettings::Redis(_) => None,
    };
    for (at, rule) in policy.rules.iter().enumerate() {
        let place = Place::top().member("rules").item(at);
        if let Some(steps) = &rule.on_limit {
            violations(steps, holds, &place.member("on_limit"), problems);
        }
        let Some(holds) = holds else { continue };
        for (quota, place) in limits(rule, &place) {
            too_large(quota, holds, &place, problems);
        }
    }
}

/// The bytes that a memory store of so many entries has for the log or the permits of one key. The store
/// divides 1,024 bytes an entry evenly among its parts, of which there are at most 1,024, and a key lives in one of
/// them. A test compares it with the store.
fn bytes_for_one_key(entries: u64) -> u64 {
    let slots = entries.saturating_mul(3).div_ceil(2).max(64);
    entries.saturating_mul(1024) / (slots / 64).clamp(1, 1024)
}

/// The fewest entries of a store that has more than so many bytes for one key.
fn entries_for(bytes: u64) -> u64 {
    // From 43,691 entries on a store has 1,024 parts, and as many bytes for one key as entries. A store of up to 85
    // entries has one part.
    const ONE_PART: u64 = 43_000;
    if bytes < ONE_PART { bytes / 1024 + 1 } else { (bytes + 1).max(43_691) }
}

/// The limits of a rule and where each is written down.
fn limits<'a>(rule: &'a Rule, place: &Place) -> Vec<(&'a Quota, Place)> {
    let mut all = Vec::new();
    let mut add = |grant, place: &Place| all.extend(quotas(grant).iter().map(|quota| (quota, place.clone())));
    match &rule.allowance {
        Allowance::Same(grant) => add(grant, &place.member(grants::member_of(grant))),
        Allowance::Tiers(tiers) => {
            let member = place.member(grants::tiers_member(tiers));
            tiers.iter().for_each(|(name, grant)| add(grant, &member.member(name)));
        }
        Allowance::Deny => {}
    }
    for (at, own) in rule.overrides.iter().enumerate() {
        add(&own.grant, &place.member("overrides").item(at));
    }
    all
}

fn too_large(quota: &Quota, holds: u64, place: &Place, problems: &mut Problems) {
    let tick = Tick::Nanosecond;
    let log = SlidingLog::new(quota, tick).map(|log| ("log", log.most_heap_bytes()));
    let permits = || Concurrency::new(quota, tick).map(|permits| ("list of permits", permits.most_heap_bytes()));
    if let Some((what, needs)) = log.or_else(permits).filter(|(_, needs)| *needs >= holds) {
        add(what, needs, holds, place.clone(), problems);
    }
}

/// Violations are counted in a log as well.
fn violations(steps: &OnLimit, holds: Option<u64>, place: &Place, problems: &mut Problems) {
    // Where no step blocks, the limiter remembers violations at a pace of fifty times those that are warned of.
    let without_block = || steps.warn_first.saturating_mul(51).min(Quota::MAX_LOG.max(steps.warn_first));
    let most = steps.block.map_or_else(without_block, |block| block.after.max(steps.warn_first));
    if most > Quota::MAX_LOG {
        let message = format!("at most {} violations are counted, and this asks for {most}", Quota::MAX_LOG);
        return problems.add(codes::TOO_LARGE_FOR_STORE, place.clone(), message, "lower the number");
    }
    let quota = Rate::new(most, Duration::from_nanos(steps.span_ns)).map_err(QuotaError::Rate);
    let log =
        quota.and_then(Quota::sliding_window_log).ok().and_then(|quota| SlidingLog::new(&quota, Tick::Nanosecond));
    if let (Some(holds), Some(log)) = (holds, log)
        && log.most_heap_bytes() >= holds
    {
        add("log of violations", log.most_heap_bytes(), holds, place.clone(), problems);
    }
}

fn add(what: &str, needs: u64, holds: u64, place: Place, problems: &mut Problems) {
    let message = format!("the {what} of one key may take {needs} bytes, and the store has {holds} for one key");
    let entries = entries_for(needs);
    let other = if what == "log" { ", or choose sliding-window-counter" } else { ", or lower the limit" };
    let hint = format!("set `store: {{ memory: {{ entries: {entries} }} }}`{other}");
    problems.add(codes::TOO_LARGE_FOR_STORE, place, message, hint);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_asked_for_are_enough() {
        for bytes in (1..300_000).chain([10_000_000, 1 << 40]) {
            assert!(bytes_for_one_key(entries_for(bytes)) > bytes, "{bytes}");
        }
    }
}
