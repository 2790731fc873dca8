//! Formats amounts, rates, durations and conditions for sentences.

use std::time::Duration;

use tollgate_core::{AlgorithmKind, Quota, Rate, max_admitted};

use crate::check::words::joined;
use crate::model::{Condition, Networks, TextPattern, When};

const MS_NS: u64 = 1_000_000;
const S_NS: u64 = 1_000 * MS_NS;
const MIN_NS: u64 = 60 * S_NS;
const H_NS: u64 = 60 * MIN_NS;
const DAY_NS: u64 = 24 * H_NS;

/// The explanation of `in any minute`, for readers of promises.
pub const ANY_SPAN: &str = "\"In any minute\" includes the first instant of the minute and not the last: a request \
                            that passes exactly a minute after another is in the next one.";

/// Units from the longest, with their names in policies and in sentences.
const UNITS: [(u64, &str, &str); 5] = [
    (DAY_NS, "day", "day"),
    (H_NS, "h", "hour"),
    (MIN_NS, "min", "minute"),
    (S_NS, "s", "second"),
    (MS_NS, "ms", "ms"),
];

/// Formats a duration with at most two units, rounded up: `15min`, `1min 300ms`.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns.div_ceil(MS_NS).saturating_mul(MS_NS);
    let largest = |ns: u64| UNITS.into_iter().find(|(unit_ns, ..)| ns >= *unit_ns);
    let Some((unit_ns, name, _)) = largest(ns) else { return "0ms".to_owned() };
    let (whole, rest_ns) = (ns / unit_ns, ns % unit_ns);
    let Some((rest_unit_ns, rest_name, _)) = largest(rest_ns) else { return format!("{whole}{name}") };
    let rest = rest_ns.div_ceil(rest_unit_ns);
    if rest * rest_unit_ns > rest_ns {
        // Rounding up may complete the larger unit, so begin again.
        return time(whole * unit_ns + rest * rest_unit_ns);
    }
    format!("{whole}{name} {rest}{rest_name}")
}

/// Formats a duration for use after `any`, `each` or `every`: `minute`, `30 seconds`.
pub(crate) fn span(ns: u64) -> String {
    let exact = UNITS.iter().find(|(unit_ns, ..)| ns >= *unit_ns && ns.is_multiple_of(*unit_ns));
    match exact {
        Some((unit_ns, _, name)) if ns == *unit_ns && *name != "ms" => (*name).to_owned(),
        Some((unit_ns, _, "ms")) => format!("{} ms", number(ns / unit_ns)),
        Some((unit_ns, _, name)) => format!("{} {name}s", number(ns / unit_ns)),
        None => time(ns),
    }
}

/// Formats a number with thousands separators: `1,200`.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number of requests: `1 request`, `2 requests`.
pub(crate) fn requests(count: u64) -> String {
    format!("{} request{}", number(count), if count == 1 { "" } else { "s" })
}

/// Formats a quota as in a policy, always with its burst: `60/min burst 60`, `3 at once`.
#[must_use]
pub fn limit(quota: &Quota) -> String {
    if quota.kind() == AlgorithmKind::Concurrency {
        return format!("{} at once", quota.amount());
    }
    let has_burst = matches!(quota.kind(), AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket);
    let rate = Rate::new(quota.amount(), Duration::from_nanos(quota.period_ns()));
    let rate = rate.and_then(|rate| if has_burst { rate.with_burst(quota.burst()) } else { Ok(rate) });
    rate.map_or_else(|_| format!("{}/{}", quota.amount(), time(quota.period_ns())), |rate| rate.to_string())
}

/// Returns why more than the limit can pass in its period, and which algorithm admits just the limit; `None` for
/// algorithms that come close to it.
pub(crate) fn beyond_limit(quota: &Quota) -> Option<String> {
    let (amount, burst, span) = (number(quota.amount()), number(quota.burst()), span(quota.period_ns()));
    let why = match quota.kind() {
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => {
            format!("{burst} at once, and {amount} more as the bucket refills")
        }
        AlgorithmKind::FixedWindow => {
            format!("{amount} at the end of one window, and {amount} at the start of the next")
        }
        _ => return None,
    };
    let exactly = if quota.amount() <= Quota::MAX_LOG {
        format!("sliding-window-log admits {amount} in any {span}")
    } else {
        format!("too many for sliding-window-log; sliding-window-counter admits about {amount} under even traffic")
    };
    Some(format!("{why}; {exactly}"))
}

/// Returns how many requests can pass in any span as long as the period, and why, if that can be more than the limit:
/// `up to 120 in any minute: ...`.
#[must_use]
pub fn most(quota: &Quota) -> Option<String> {
    let most = max_admitted(quota, quota.period_ns())?;
    let why = beyond_limit(quota)?;
    Some(format!("up to {} in any {}: {why}", number(most), span(quota.period_ns())))
}

/// Returns the name of the algorithm as in a policy, and whether it has a queue.
#[must_use]
pub fn algorithm(quota: &Quota) -> String {
    match quota.kind() {
        AlgorithmKind::LeakyQueue => "leaky-bucket with a queue".to_owned(),
        kind => kind.to_string(),
    }
}

/// `a`, `a and b`, `a, b and c`
pub(crate) fn list(words: &[String]) -> String {
    joined(words, "and")
}

/// `a`, `a or b`, `a, b or c`
pub(crate) fn either(words: &[String]) -> String {
    joined(words, "or")
}

/// Formats each condition of a rule, such as `path /login or /register`. Empty for all requests.
pub(crate) fn conditions(when: &When) -> Vec<String> {
    let mut conditions = Vec::new();
    let mut any_of = |what: &str, these: &[String]| {
        if !these.is_empty() {
            conditions.push(format!("{what} {}", either(these)));
        }
    };
    any_of("method", &methods(&when.methods));
    any_of("host", &when.hosts);
    any_of("path", &when.paths);
    any_of("domain", &when.domains);
    conditions
        .extend(when.headers.iter().map(|(name, condition)| format!("header {name} {}", condition_words(condition))));
    conditions.extend(
        when.identities.iter().map(|(name, condition)| format!("identity {name} {}", condition_words(condition))),
    );
    conditions.extend(when.network.as_ref().map(|network| {
        let relation = if network.is_outside() { "not in" } else { "in" };
        format!("client_ip {relation} {}", networks(network))
    }));
    if when.exact_entries {
        conditions.push("exactly the entries that the rule names".to_owned());
    }
    conditions
}

/// Formats the networks of a condition, whether the client is to be inside or outside of them.
pub(crate) fn networks(networks: &Networks) -> String {
    match networks {
        Networks::Internal | Networks::NotInternal => "the internal networks".to_owned(),
        Networks::Among(networks) | Networks::NotAmong(networks) => {
            networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The methods, with HEAD if GET includes it.
fn methods(listed: &[String]) -> Vec<String> {
    let has = |method: &str| listed.iter().any(|listed| listed == method);
    let implied = (has("GET") && !has("HEAD")).then(|| "HEAD".to_owned());
    listed.iter().cloned().chain(implied).collect()
}

fn condition_words(condition: &Condition) -> String {
    match condition {
        Condition::Present => "present".to_owned(),
        Condition::Absent => "absent".to_owned(),
        Condition::OneOf(these) => texts(these),
        Condition::OneOfBut { these, but_not } if these.is_empty() => format!("not {}", texts(but_not)),
        Condition::OneOfBut { these, but_not } => format!("{}, but not {}", texts(these), texts(but_not)),
    }
}

fn texts(patterns: &[TextPattern]) -> String {
    either(&patterns.iter().map(|pattern| pattern.0.clone()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_at_most_two_units_and_round_up() {
        for (ns, expected) in [
            (0, "0ms"),
            (1, "1ms"),
            (MS_NS, "1ms"),
            (MS_NS + 1, "2ms"),
            (S_NS - 1, "1s"),
            (S_NS, "1s"),
            (S_NS + 1, "1s 1ms"),
            (1_500 * MS_NS, "1s 500ms"),
            (2 * S_NS - 1, "2s"),
            (MIN_NS + 300 * MS_NS, "1min 300ms"),
            (15 * MIN_NS, "15min"),
            (90 * MIN_NS, "1h 30min"),
            (H_NS + MIN_NS + 1, "1h 2min"),
            (2 * H_NS - 1, "2h"),
            (30 * DAY_NS, "30day"),
        ] {
            assert_eq!(time(ns), expected, "{ns}");
        }
    }

    #[test]
    fn spans_are_formatted_for_sentences() {
        for (ns, expected) in [
            (MIN_NS, "minute"),
            (30 * S_NS, "30 seconds"),
            (90 * S_NS, "90 seconds"),
            (S_NS, "second"),
            (MS_NS, "1 ms"),
            (1_500 * MS_NS, "1,500 ms"),
            (7 * DAY_NS, "7 days"),
        ] {
            assert_eq!(span(ns), expected, "{ns}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        for (plain, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(plain), expected);
        }
    }

    #[test]
    fn limits_are_formatted_as_in_a_policy() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        assert_eq!(limit(&Quota::token_bucket(rate("60/min")).unwrap()), "60/min burst 60");
        assert_eq!(limit(&Quota::token_bucket(rate("10/s")).unwrap()), "10/s burst 20");
        assert_eq!(limit(&Quota::fixed_window(rate("10 per 30s")).unwrap()), "10/30s");
        assert_eq!(limit(&Quota::concurrency(3, None).unwrap()), "3 at once");
    }
}
