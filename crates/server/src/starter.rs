use tollgate::{Quota, QuotaError, Rate};

/// The name of the rule that holds where nothing else is configured.
pub(crate) const RULE: &str = "per-ip";

/// How much it lets each client do.
const RATE: &str = "60/min burst 60";

/// The rule's quota: a token bucket, so that an honest client's burst passes and its average is held.
pub(crate) fn quota() -> Result<Quota, QuotaError> {
    let rate: Rate = RATE.parse().unwrap_or_else(|error| unreachable!("the starter rule's rate is a rate: {error}"));
    Quota::token_bucket(rate)
}
