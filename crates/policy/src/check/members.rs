//! Members of a rule that exclude each other, in the same words for a file and for a builder.

use tollgate_core::AlgorithmKind;

use super::quoted;
use super::words::either;

/// What a rule grants, or that it denies: exactly one of these.
pub(crate) const GRANTS: &[&str] = &["limit", "tiers", "concurrency", "unlimited", "deny"];

/// What counts rates, and so does not go with `concurrency` or `deny`.
const OF_RATES: [&str; 3] = ["algorithm", "queue", "max_debt"];

/// The algorithms of rates, by name.
pub(crate) const ALGORITHMS: [(&str, AlgorithmKind); 5] = [
    ("token-bucket", AlgorithmKind::TokenBucket),
    ("leaky-bucket", AlgorithmKind::LeakyBucket),
    ("fixed-window", AlgorithmKind::FixedWindow),
    ("sliding-window-log", AlgorithmKind::SlidingWindowLog),
    ("sliding-window-counter", AlgorithmKind::SlidingWindowCounter),
];

/// What is wrong, and how to repair it.
pub(crate) type Said = (String, String);

/// A member that may be there once is there again.
pub(crate) fn twice(member: &str) -> Said {
    (format!("{} is there twice", quoted(member)), "keep one of the two".to_owned())
}

/// None of some is there, of which one must be.
pub(crate) fn none_of(this: &str, choice: &[&'static str]) -> Said {
    (format!("{this} says nothing of {}", either(choice.iter().copied())), "add exactly one of them".to_owned())
}

/// Two of some are there, of which one may be.
pub(crate) fn one_beside(other: &str, one: &str, choice: &[&'static str]) -> Said {
    let hint = format!("keep exactly one of {}", either(choice.iter().copied()));
    (format!("`{other}` cannot stand beside `{one}`"), hint)
}

/// The members of a rule, of those that it has, that do not go with the one that says what it grants: `grant`.
pub(crate) fn misplaced(
    grant: &str,
    algorithm: Option<AlgorithmKind>,
    has: impl Fn(&str) -> bool,
) -> Vec<(&'static str, Said)> {
    let of_rates = OF_RATES.into_iter().filter(|member| has(member));
    match (grant, algorithm) {
        ("deny", _) => {
            let steps = ["on_limit"].into_iter().filter(|member| has(member));
            of_rates.chain(steps).map(|member| (member, beside_deny(member))).collect()
        }
        ("concurrency", _) => of_rates.map(|member| (member, beside_concurrency(member))).collect(),
        (_, None | Some(AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue)) => Vec::new(),
        (_, Some(algorithm)) if has("queue") => vec![("queue", queue_under(algorithm))],
        (_, Some(_)) => Vec::new(),
    }
}

fn beside_concurrency(member: &str) -> Said {
    (format!("`{member}` goes with a limit of rates, not with `concurrency`"), "leave it out".to_owned())
}

/// A queue under another algorithm than the leaky bucket.
fn queue_under(algorithm: AlgorithmKind) -> Said {
    let message = format!("`queue` goes with the leaky bucket only, not with {algorithm}");
    (message, "add `algorithm: leaky-bucket`, or leave out `queue`".to_owned())
}

/// Steps beyond a limit that there is not.
pub(crate) fn on_limit_without_limit() -> Said {
    let message = "`on_limit` needs a limit, and this rule grants everything".to_owned();
    (message, "leave `on_limit` out, or give the rule a limit".to_owned())
}

/// A member beside `deny`.
pub(crate) fn beside_deny(member: &str) -> Said {
    let message = format!("`{member}` cannot stand beside `deny`: a rule that denies counts nothing");
    let hint = match member {
        "key" => "say in `when` which requests it denies: `identity: { NAME: true }` asks for an identity",
        _ => "leave it out; a rule that is to limit has `limit` in place of `deny`",
    };
    (message, hint.to_owned())
}
