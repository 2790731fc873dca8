//! Warns about limits that allow more, or use more memory, than they seem to, costs that never pass or that clients
//! choose, and denials that clients can avoid.

use std::collections::BTreeSet;

use tollgate_core::{AlgorithmKind, MAX_AMOUNT, Quota, SlidingLog, Tick};

use super::{Reporter, codes, quoted};
use crate::check::grants::{self, capacity, capacity_of};
use crate::check::words::did_you_mean;
use crate::model::{Allowance, BUILT_IN_IDENTITIES, Condition, CostSource, Policy, Rule, When};

/// The largest log without a warning. A log takes 4 to 7 bytes per request, so this is up to 70 kB per key.
const LARGE_LOG: u64 = 10_000;

/// Path segments of endpoints where passwords or codes can be guessed.
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
        let message = "this rule does not apply over forward-auth, Envoy's RLS and CL.THROTTLE, which do not report the end of a request";
        let hint = "it applies in the middleware, and over HTTP to callers that release their receipt";
        here.member(limit).add(codes::CONCURRENCY_ELSEWHERE, message, hint);
    }
    if let (Allowance::Tiers(tiers), Some(listed)) = (&rule.allowance, listed) {
        unused_tiers(tiers.iter().map(|(name, _)| name.as_str()), listed, &mut here.member(limit));
    }
}

/// Warns about a denial without `when`. It may be intended, for example while a site is closed, but a forgotten `when`
/// looks the same.
fn denies_all(rule: &Rule, here: &mut Reporter<'_>) {
    if rule.denies() && rule.when == When::default() {
        let message = "this rule denies every request: it has no `when`";
        let hint = "select requests with `when`, as in `when: { path: /admin/* }`";
        here.add(codes::DENIES_EVERYTHING, message, hint);
    }
}

fn unlimited(rule: &Rule, here: &mut Reporter<'_>) {
    // A rule that replaces others, or that makes a gateway's descriptor known, has an effect without a limit.
    if rule.denies() || !rule.replaces.is_empty() || rule.when.exact_entries {
        return;
    }
    if rule.grants().all(|grant| grant.quotas().is_empty()) {
        let member = match &rule.allowance {
            Allowance::Same(_) => "unlimited",
            Allowance::Tiers(_) | Allowance::Deny => "tiers",
        };
        let message = "this rule is unlimited for all clients, so it limits nothing";
        here.member(member).add(codes::UNLIMITED_FOR_ALL, message, "add a limit, or remove the rule");
    }
}

fn login(rule: &Rule, all: &[&Quota], here: &mut Reporter<'_>) {
    if !all.iter().any(|quota| quota.kind() == AlgorithmKind::FixedWindow) {
        return;
    }
    let is_login = |path: &String| path.to_ascii_lowercase().split('/').any(|segment| LOGIN_WORDS.contains(&segment));
    if let Some(path) = rule.when.paths.iter().find(|path| is_login(path)) {
        let message = format!(
            "a fixed window admits twice its limit around its end, and {} looks like an endpoint for guessing passwords",
            quoted(path)
        );
        let hint = "use sliding-window-log (exact) or sliding-window-counter";
        here.add(codes::FIXED_WINDOW_ON_LOGIN, message, hint);
    }
}

fn large_log(all: &[&Quota], here: &mut Reporter<'_>) {
    let is_large = |quota: &&&Quota| quota.kind() == AlgorithmKind::SlidingWindowLog && quota.amount() > LARGE_LOG;
    if let Some(quota) = all.iter().find(is_large) {
        let kib = SlidingLog::new(quota, Tick::Nanosecond).map_or(0, |log| log.max_heap_bytes() / 1024);
        let message = format!("a sliding-window-log stores every request: up to {kib} KiB per key");
        let hint = "use sliding-window-counter, which takes the same few bytes at any limit";
        here.add(codes::LARGE_LOG, message, hint);
    }
}

fn queue(all: &[&Quota], here: &mut Reporter<'_>) {
    for quota in all.iter().filter(|quota| quota.kind() == AlgorithmKind::LeakyQueue) {
        // The request that departs at once takes a position too.
        let (size, taken) = (quota.queue_size(), capacity_of(quota));
        if size > taken {
            let are = if taken == 1 { "is" } else { "are" };
            let message = format!(
                "only {taken} of the {size} positions of the queue {are} ever used: requests behind them would exceed `max_wait`"
            );
            let hint = format!("lower `size` to {taken}, or raise `max_wait`");
            let hint = if taken == 1 { "raise `max_wait`, or remove `queue`".to_owned() } else { hint };
            return here.add(codes::QUEUE_LONGER_THAN_WAIT, message, hint);
        }
    }
}

/// Warns if more requests pass with a warning than within the limit: the effective limit is the sum.
fn warns(rule: &Rule, all: &[&Quota], here: &mut Reporter<'_>) {
    let Some(steps) = &rule.on_limit else { return };
    let smallest = all.iter().map(|quota| quota.amount()).min();
    if let Some(limit) = smallest.filter(|limit| steps.warn_first > *limit) {
        let more = steps.warn_first;
        let message = format!("the limit is {limit}, and {more} more pass with a warning");
        here.add(codes::WARNS_ABOVE_LIMIT, message, "lower `first`, or raise the limit");
    }
}

/// Warns about a limit for a tier that is not listed, where the policy lists all tiers.
fn unused_tiers<'r>(tiers: impl Iterator<Item = &'r str>, listed: &BTreeSet<&str>, here: &mut Reporter<'_>) {
    for name in tiers.filter(|name| !listed.contains(name)) {
        if here.is_full() {
            return;
        }
        let hint = did_you_mean(name, listed.iter().copied());
        here.member(name).add(codes::UNUSED_TIER, format!("no client can have the tier {}", quoted(name)), hint);
    }
}

pub(super) fn cost(rule: &Rule, here: &mut Reporter<'_>) {
    above_limit(rule, here);
    let CostSource::Header { name, .. } = &rule.cost.source else { return };
    let mut here = here.at(here.path.member("cost").member("header"));
    let header = quoted(name);
    let message = format!("the sender of {header} chooses the cost of the request, and clients will choose 1");
    let hint = "have a proxy in front set the header, and remove the one that clients send";
    here.add(codes::COST_FROM_CLIENT, message, hint);
    if rule.cost.max == MAX_AMOUNT {
        let message = format!("{header} may contain any number, so one request can use up a whole limit");
        here.add(codes::COST_WITHOUT_MAX, message, "add `max`, the largest cost of a request");
    }
}

/// Warns about a cost above the limit: such a request is always refused. If it is so for all requests, it is an error.
fn above_limit(rule: &Rule, here: &mut Reporter<'_>) {
    let (_, most) = grants::costs(rule);
    grants::each(rule, here, |grant, here, whose| {
        let holds = capacity(grant.quotas());
        if most > holds {
            let message =
                format!("a request may cost {most}, and {whose} never allows more than {holds}: it is always refused");
            here.add(codes::COST_ABOVE_LIMIT, message, "lower the cost, or raise the limit or its burst");
        }
    });
}

/// Warns about rules that deny every value but some: a client avoids them by sending none.
pub(super) fn absent(rule: &Rule, policy: &Policy, when: &mut Reporter<'_>) {
    if !rule.denies() {
        return;
    }
    for (name, condition) in &rule.when.headers {
        let is_denied = denied_if_absent(policy, |when| &when.headers, |known| known.eq_ignore_ascii_case(name));
        if excludes(condition) && !is_denied {
            absent_not_denied("header", "headers", name, when);
        }
    }
    for (name, condition) in &rule.when.identities {
        let is_denied = denied_if_absent(policy, |when| &when.identities, |known| known == name);
        // Every request has a method, a path and an address, as far as they are known.
        if excludes(condition) && !is_denied && !BUILT_IN_IDENTITIES.contains(&name.as_str()) {
            absent_not_denied("identity", "identity", name, when);
        }
    }
}

fn excludes(condition: &Condition) -> bool {
    matches!(condition, Condition::OneOfBut { these, .. } if these.is_empty())
}

/// Whether a rule denies requests that lack a header or an identity.
fn denied_if_absent(
    policy: &Policy,
    conditions: impl Fn(&When) -> &Vec<(String, Condition)>,
    is_it: impl Fn(&str) -> bool,
) -> bool {
    let requires_absence = |rule: &&Rule| {
        conditions(&rule.when).iter().any(|(name, condition)| is_it(name) && *condition == Condition::Absent)
    };
    policy.rules.iter().filter(|rule| rule.denies()).any(|rule| requires_absence(&rule))
}

fn absent_not_denied(what: &str, member: &str, name: &str, when: &mut Reporter<'_>) {
    let message = format!(
        "a request without the {what} {} is not denied: `not` matches only requests that have a value",
        quoted(name)
    );
    let hint = format!("add a rule that denies such requests: `when: {{ {member}: {{ {name}: false }} }}`");
    when.member(member).member(name).add(codes::ABSENT_NOT_DENIED, message, hint);
}
