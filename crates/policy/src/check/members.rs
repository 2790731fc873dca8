//! Messages about members that exclude each other, shared by the file reader and the builder.

use tollgate_core::AlgorithmKind;

use super::quoted;
use super::words::either;

/// The members that set what a rule grants. A rule has exactly one of them.
pub(crate) const GRANTS: &[&str] = &["limit", "tiers", "concurrency", "unlimited", "deny", "budget"];

/// The members that need a rate, so they cannot be combined with `concurrency` or `deny`.
const OF_RATES: [&str; 3] = ["algorithm", "queue", "max_debt"];

/// The algorithms for rates, by name.
pub(crate) const ALGORITHMS: [(&str, AlgorithmKind); 5] = [
    ("token-bucket", AlgorithmKind::TokenBucket),
    ("leaky-bucket", AlgorithmKind::LeakyBucket),
    ("fixed-window", AlgorithmKind::FixedWindow),
    ("sliding-window-log", AlgorithmKind::SlidingWindowLog),
    ("sliding-window-counter", AlgorithmKind::SlidingWindowCounter),
];

/// A message and its hint.
pub(crate) type MessageAndHint = (String, String);

/// A member is repeated.
pub(crate) fn twice(member: &str) -> MessageAndHint {
    (format!("{} is given twice", quoted(member)), "keep one of the two".to_owned())
}

/// None of several members is given, and one is required.
pub(crate) fn none_of(this: &str, choice: &[&'static str]) -> MessageAndHint {
    (
        format!("{this} needs {}, and has none of them", either(choice.iter().copied())),
        "add exactly one of them".to_owned(),
    )
}

/// Two of several members are given, and only one is allowed.
pub(crate) fn one_beside(other: &str, one: &str, choice: &[&'static str]) -> MessageAndHint {
    let hint = format!("keep exactly one of {}", either(choice.iter().copied()));
    (format!("`{other}` cannot be combined with `{one}`"), hint)
}

/// Returns the members of a rule that cannot be combined with `grant`, the member that sets what the rule grants.
pub(crate) fn misplaced(
    grant: &str,
    algorithm: Option<AlgorithmKind>,
    has: impl Fn(&str) -> bool,
) -> Vec<(&'static str, MessageAndHint)> {
    let of_rates = OF_RATES.into_iter().filter(|member| has(member));
    match (grant, algorithm) {
        ("deny", _) => {
            let steps = ["on_limit"].into_iter().filter(|member| has(member));
            of_rates.chain(steps).map(|member| (member, beside_deny(member))).collect()
        }
        ("budget", _) => {
            let of_counter = ["key", "consistency"].into_iter().filter(|member| has(member));
            of_rates.chain(of_counter).map(|member| (member, beside_budget(member))).collect()
        }
        ("concurrency", _) => of_rates.map(|member| (member, beside_concurrency(member))).collect(),
        (_, None | Some(AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue)) => Vec::new(),
        (_, Some(algorithm)) if has("queue") => vec![("queue", queue_under(algorithm))],
        (_, Some(_)) => Vec::new(),
    }
}

fn beside_concurrency(member: &str) -> MessageAndHint {
    (format!("`{member}` is for rates and cannot be combined with `concurrency`"), format!("remove `{member}`"))
}

/// A queue with an algorithm other than the leaky bucket.
fn queue_under(algorithm: AlgorithmKind) -> MessageAndHint {
    let message = format!("`queue` works only with leaky-bucket, and the algorithm is {algorithm}");
    (message, "add `algorithm: leaky-bucket`, or remove `queue`".to_owned())
}

/// Escalation without a limit.
pub(crate) fn on_limit_without_limit() -> MessageAndHint {
    let message = "`on_limit` needs a limit, and this rule is unlimited".to_owned();
    (message, "remove `on_limit`, or add a limit to the rule".to_owned())
}

/// A member that cannot be combined with `budget`.
pub(crate) fn beside_budget(member: &str) -> MessageAndHint {
    let message = format!("`{member}` cannot be combined with `budget`: the rules of a budget share its counter");
    let hint = match member {
        "key" | "algorithm" | "max_debt" | "consistency" => format!("move `{member}` to the budget"),
        _ => "remove it, or replace `budget` with a limit".to_owned(),
    };
    (message, hint)
}

/// `consistency: leased` in a rule whose tokens cannot be leased, for this reason.
pub(crate) fn leased_beside(member: &str, why: &str) -> MessageAndHint {
    (
        format!("`consistency: leased` cannot be combined with `{member}`: {why}"),
        "remove `consistency`, or write `consistency: exact`".to_owned(),
    )
}

/// A member that cannot be combined with `deny`.
pub(crate) fn beside_deny(member: &str) -> MessageAndHint {
    let message = format!("`{member}` cannot be combined with `deny`: a rule that denies has no counter");
    let hint = match member {
        "key" => "select the requests in `when`: `identity: { NAME: true }` matches requests that have the identity",
        _ => "remove it, or write `limit` instead of `deny` to limit the requests",
    };
    (message, hint.to_owned())
}
