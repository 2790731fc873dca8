//! Limits that hold less, or cost more, than they seem to, costs that no client can pay or that clients choose, and
//! denials that a client escapes.

use std::collections::BTreeSet;

use tollgate_core::{AlgorithmKind, MAX_AMOUNT, Quota, SlidingLog, Tick};

use super::{Reporter, codes, quoted};
use crate::check::grants::{self, capacity, capacity_of};
use crate::check::words::did_you_mean;
use crate::model::{Allowance, BUILT_IN_IDENTITIES, Condition, CostSource, Policy, Rule, When};

/// A log takes 4 to 6 bytes a request: from here on, some 60 kB a key.
const LARGE_LOG: u64 = 10_000;

/// Parts of paths at which somebody guesses passwords or codes.
const LOGIN_WORDS: [&str; 14] = [
    "login", "log-in", "signin", "sign-in", "auth", "oauth", "token", "password", "passwd", "otp", "2fa", "mfa",
    "verify", "session",
];

pub(super) fn check(rule: &Rule, listed: Option<&BTreeSet<&str>>, here: &mut Reporter<'_>) {
    let all: Vec<&Quota> = rule.allowance.quotas().collect();
    unlimited(rule, here);
    denies_all(rule, &mut here.member("deny"));
    login(rule, &all, &mut here.member("algorithm"));
    let limit = grants::member_of(&rule.allowance);
    large_log(&all, &mut here.member(limit));
    queue(&all, &mut here.member("queue"));
    warns(rule, &all, &mut here.member("on_limit"));
    if all.iter().any(|quota| quota.kind() == AlgorithmKind::Concurrency) {
        let message = "forward-auth, Envoy's RLS and CL.THROTTLE do not know when a request ends, so this rule does not apply there";
        let hint = "it holds in the middleware, and over HTTP for callers that release their receipt";
        here.member(limit).add(codes::CONCURRENCY_ELSEWHERE, message, hint);
    }
    if let (Allowance::Tiers(tiers), Some(listed)) = (&rule.allowance, listed) {
        unused_tiers(tiers.iter().map(|(name, _)| name.as_str()), listed, &mut here.member(limit));
    }
}

/// It may be meant, as while a site is closed, but a forgotten `when` looks the same.
fn denies_all(rule: &Rule, here: &mut Reporter<'_>) {
    if rule.denies() && rule.when == When::default() {
        let message = "this rule denies every request: it has no `when`";
        let hint = "say in `when` which requests are meant, such as `when: { path: /admin/* }`";
        here.add(codes::DENIES_EVERYTHING, message, hint);
    }
}

fn unlimited(rule: &Rule, here: &mut Reporter<'_>) {
    // One that takes others away, or says that a gateway's descriptor is known, does something all the same.
    if rule.denies() || !rule.replaces.is_empty() || rule.when.exact_entries {
        return;
    }
    if rule.grants().all(|grant| grant.quotas().is_empty()) {
        let member = match &rule.allowance {
            Allowance::Same(_) => "unlimited",
            Allowance::Tiers(_) | Allowance::Deny => "tiers",
        };
        let message = "this rule grants everything to everybody, so it limits nothing";
        here.member(member).add(codes::UNLIMITED_FOR_ALL, message, "give it a limit, or remove it");
    }
}

fn login(rule: &Rule, all: &[&Quota], here: &mut Reporter<'_>) {
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
        here.add(codes::FIXED_WINDOW_ON_LOGIN, message, hint);
    }
}

fn large_log(all: &[&Quota], here: &mut Reporter<'_>) {
    let is_large = |quota: &&&Quota| quota.kind() == AlgorithmKind::SlidingWindowLog && quota.amount() > LARGE_LOG;
    if let Some(quota) = all.iter().find(is_large) {
        let kib = SlidingLog::new(quota, Tick::Nanosecond).map_or(0, |log| log.most_heap_bytes() / 1024);
        let message = format!("a log remembers every request: up to {kib} KiB for each key");
        let hint = "choose sliding-window-counter, which takes the same few bytes whatever the limit";
        here.add(codes::LARGE_LOG, message, hint);
    }
}

fn queue(all: &[&Quota], here: &mut Reporter<'_>) {
    for quota in all.iter().filter(|quota| quota.kind() == AlgorithmKind::LeakyQueue) {
        // The request that departs at once has a place too.
        let (size, taken) = (quota.queue_size(), capacity_of(quota));
        if size > taken {
            let are = if taken == 1 { "is" } else { "are" };
            let message = format!(
                "of {size} places only {taken} {are} ever taken: nobody further back is served within `max_wait`"
            );
            let hint = format!("lower `size` to {taken}, or raise `max_wait`");
            let hint = if taken == 1 { "raise `max_wait`, or leave out `queue`".to_owned() } else { hint };
            return here.add(codes::QUEUE_LONGER_THAN_WAIT, message, hint);
        }
    }
}

/// Warnings that let as many pass as the limit does make another limit of it.
fn warns(rule: &Rule, all: &[&Quota], here: &mut Reporter<'_>) {
    let Some(steps) = &rule.on_limit else { return };
    let smallest = all.iter().map(|quota| quota.amount()).min();
    if let Some(limit) = smallest.filter(|limit| steps.warn_first > *limit) {
        let more = steps.warn_first;
        let message = format!("the limit is {limit}, and {more} more pass with a warning");
        here.add(codes::WARNS_ABOVE_LIMIT, message, "lower `first`, or raise the limit");
    }
}

/// Where all tiers are written down, a rule for another is a typing mistake.
fn unused_tiers<'r>(tiers: impl Iterator<Item = &'r str>, listed: &BTreeSet<&str>, here: &mut Reporter<'_>) {
    for name in tiers.filter(|name| !listed.contains(name)) {
        if here.is_full() {
            return;
        }
        let hint = did_you_mean(name, listed.iter().copied());
        here.member(name).add(codes::UNUSED_TIER, format!("nobody is in the tier {}", quoted(name)), hint);
    }
}

pub(super) fn cost(rule: &Rule, here: &mut Reporter<'_>) {
    above_limit(rule, here);
    let CostSource::Header { name, .. } = &rule.cost.source else { return };
    let mut here = here.at(here.place.member("cost").member("header"));
    let header = quoted(name);
    let message = format!("whoever sends {header} chooses what the request costs: clients will say 1");
    let hint = "let a proxy in front set the header, and remove what clients send";
    here.add(codes::COST_FROM_CLIENT, message, hint);
    if rule.cost.max == MAX_AMOUNT {
        let message = format!("one request can use up a whole limit, as {header} may say any number");
        here.add(codes::COST_WITHOUT_MAX, message, "add `max:`, the most that a request counts");
    }
}

/// A request that costs more than its limit holds is refused for ever. Where
/// that is so for all, it is an error.
fn above_limit(rule: &Rule, here: &mut Reporter<'_>) {
    let (_, most) = grants::costs(rule);
    grants::each(rule, here, |grant, here, whose| {
        let holds = capacity(grant.quotas());
        if most > holds {
            let message =
                format!("a request may cost {most}, and {whose} never holds more than {holds}: it is always refused");
            here.add(codes::COST_ABOVE_LIMIT, message, "lower the cost, or raise the limit or its burst");
        }
    });
}

/// Rules that deny every value but some, which a client escapes by sending none.
pub(super) fn absent(rule: &Rule, policy: &Policy, when: &mut Reporter<'_>) {
    if !rule.denies() {
        return;
    }
    for (name, condition) in &rule.when.headers {
        let is_denied = denied_if_absent(policy, |when| &when.headers, |known| known.eq_ignore_ascii_case(name));
        if excludes(condition) && !is_denied {
            tell("header", "headers", name, when);
        }
    }
    for (name, condition) in &rule.when.identities {
        let is_denied = denied_if_absent(policy, |when| &when.identities, |known| known == name);
        // Every request has a method, a path and an address, or nothing can be said about it.
        if excludes(condition) && !is_denied && !BUILT_IN_IDENTITIES.contains(&name.as_str()) {
            tell("identity", "identity", name, when);
        }
    }
}

fn excludes(condition: &Condition) -> bool {
    matches!(condition, Condition::OneOfBut { these, .. } if these.is_empty())
}

/// Whether any rule denies requests that lack it.
fn denied_if_absent(
    policy: &Policy,
    conditions: impl Fn(&When) -> &Vec<(String, Condition)>,
    is_meant: impl Fn(&str) -> bool,
) -> bool {
    let asks = |rule: &&Rule| {
        conditions(&rule.when).iter().any(|(name, condition)| is_meant(name) && *condition == Condition::Absent)
    };
    policy.rules.iter().filter(|rule| rule.denies()).any(|rule| asks(&rule))
}

fn tell(what: &str, member: &str, name: &str, when: &mut Reporter<'_>) {
    let message = format!("a request without the {what} {} is not denied: `not` is about other values", quoted(name));
    let hint = format!("add a rule that denies those: `when: {{ {member}: {{ {name}: false }} }}`");
    when.member(member).member(name).add(codes::ABSENT_NOT_DENIED, message, hint);
}
