//! Limits that hold less, or cost more, than they seem to.

use std::collections::BTreeSet;

use tollgate_core::{AlgorithmKind, Quota, SlidingLog, Tick};

use super::super::nearest::nearest;
use super::super::periods::{grants, quotas};
use super::super::problems::Problems;
use super::super::words::quoted;
use super::super::{capacity, codes};
use super::limit_place;
use crate::model::{Allowance, Rule, When};
use crate::problem::Place;

/// A log takes 4 to 6 bytes a request: from here on, some 60 kB a key.
const LARGE_LOG: u64 = 10_000;

/// Parts of paths at which somebody guesses passwords or codes.
const LOGIN_WORDS: [&str; 14] = [
    "login", "log-in", "signin", "sign-in", "auth", "oauth", "token", "password", "passwd", "otp", "2fa", "mfa",
    "verify", "session",
];

pub(super) fn check(rule: &Rule, listed: Option<&BTreeSet<&str>>, place: &Place, problems: &mut Problems) {
    let all: Vec<&Quota> = grants(&rule.allowance).flat_map(quotas).collect();
    let limit = limit_place(&rule.allowance, place);
    unlimited(rule, &all, place, problems);
    denies_all(rule, place, problems);
    login(rule, &all, place, problems);
    large_log(&all, &limit, problems);
    queue(&all, place, problems);
    warns(rule, &all, place, problems);
    if all.iter().any(|quota| quota.kind() == AlgorithmKind::Concurrency) {
        let message = "forward-auth, Envoy's RLS and CL.THROTTLE do not know when a request ends, so this rule does not apply there";
        let hint = "it holds in the middleware, and over HTTP for callers that release their receipt";
        problems.add(codes::CONCURRENCY_ELSEWHERE, limit.clone(), message, hint);
    }
    if let (Allowance::Tiers(tiers), Some(listed)) = (&rule.allowance, listed) {
        unused_tiers(tiers.iter().map(|(name, _)| name.as_str()), listed, &limit, problems);
    }
}

/// It may be meant, as while a site is closed, but a forgotten `when` looks the same.
fn denies_all(rule: &Rule, place: &Place, problems: &mut Problems) {
    if rule.denies() && rule.when == When::default() {
        let message = "this rule denies every request: it has no `when`";
        let hint = "say in `when` which requests are meant, such as `when: { path: /admin/* }`";
        problems.add(codes::DENIES_EVERYTHING, place.member("deny"), message, hint);
    }
}

fn unlimited(rule: &Rule, all: &[&Quota], place: &Place, problems: &mut Problems) {
    if rule.denies() {
        return;
    }
    // One that takes others away, or says that a gateway's descriptor is known, does something all the same.
    if !rule.replaces.is_empty() || rule.when.exact_entries {
        return;
    }
    if all.is_empty() && rule.overrides.iter().all(|own| quotas(&own.grant).is_empty()) {
        let member = match &rule.allowance {
            Allowance::Same(_) => "unlimited",
            Allowance::Tiers(_) | Allowance::Deny => "tiers",
        };
        let message = "this rule grants everything to everybody, so it limits nothing";
        problems.add(codes::UNLIMITED_FOR_ALL, place.member(member), message, "give it a limit, or remove it");
    }
}

fn login(rule: &Rule, all: &[&Quota], place: &Place, problems: &mut Problems) {
    if !all.iter().any(|quota| quota.kind() == AlgorithmKind::FixedWindow) {
        return;
    }
    let is_login = |path: &String| path.to_ascii_lowercase().split('/').any(|segment| LOGIN_WORDS.contains(&segment));
    if let Some(path) = rule.when.paths.iter().find(|path| is_login(path)) {
        let message = format!(
            "a fixed window lets twice its limit pass around its end, and {} looks like a place to guess at",
            quoted(path)
        );
        let hint = "choose sliding-window-log (exact) or sliding-window-counter";
        problems.add(codes::FIXED_WINDOW_ON_LOGIN, place.member("algorithm"), message, hint);
    }
}

fn large_log(all: &[&Quota], limit: &Place, problems: &mut Problems) {
    let is_large = |quota: &&&Quota| quota.kind() == AlgorithmKind::SlidingWindowLog && quota.amount() > LARGE_LOG;
    if let Some(quota) = all.iter().find(is_large) {
        let kib = SlidingLog::new(quota, Tick::Nanosecond).map_or(0, |log| log.most_heap_bytes() / 1024);
        let message = format!("a log remembers every request: up to {kib} KiB for each key");
        let hint = "choose sliding-window-counter, which takes the same few bytes whatever the limit";
        problems.add(codes::LARGE_LOG, limit.clone(), message, hint);
    }
}

fn queue(all: &[&Quota], place: &Place, problems: &mut Problems) {
    for quota in all.iter().filter(|quota| quota.kind() == AlgorithmKind::LeakyQueue) {
        // The request that departs at once has a place too.
        let (size, taken) = (quota.queue_size(), capacity::served_within_wait(quota).saturating_add(1));
        if size > taken {
            let are = if taken == 1 { "is" } else { "are" };
            let message = format!(
                "of {size} places only {taken} {are} ever taken: nobody further back is served within `max_wait`"
            );
            let hint = format!("lower `size` to {taken}, or raise `max_wait`");
            let hint = if taken == 1 { "raise `max_wait`, or leave out `queue`".to_owned() } else { hint };
            problems.add(codes::QUEUE_LONGER_THAN_WAIT, place.member("queue"), message, hint);
            return;
        }
    }
}

/// Warnings that let as many pass as the limit does make another limit of it.
fn warns(rule: &Rule, all: &[&Quota], place: &Place, problems: &mut Problems) {
    let Some(steps) = &rule.on_limit else { return };
    let smallest = all.iter().map(|quota| quota.amount()).min();
    if let Some(limit) = smallest.filter(|limit| steps.warn_first > *limit) {
        let more = steps.warn_first;
        let message = format!("the limit is {limit}, and {more} more pass with a warning");
        problems.add(codes::WARNS_ABOVE_LIMIT, place.member("on_limit"), message, "lower `first`, or raise the limit");
    }
}

/// Where all tiers are written down, a rule for another is a typing mistake.
fn unused_tiers<'r>(
    tiers: impl Iterator<Item = &'r str>,
    listed: &BTreeSet<&str>,
    place: &Place,
    problems: &mut Problems,
) {
    for name in tiers.filter(|name| !listed.contains(name)) {
        if problems.is_full() {
            return;
        }
        let message = format!("nobody is in the tier {}", quoted(name));
        let meant = nearest(name, listed.iter().copied());
        let hint = meant.map_or_else(String::new, |meant| format!("did you mean {}?", quoted(meant)));
        problems.add(codes::UNUSED_TIER, place.member(name), message, hint);
    }
}
