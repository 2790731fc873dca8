use tollgate_store::{LimitOptions, OnFailure, Quota, Refusals};

/// Returns a token bucket that refills no token during a test.
pub(crate) fn bucket_without_refill(burst: u64) -> Quota {
    Quota::token_bucket(format!("100/day burst {burst}").parse().unwrap()).unwrap()
}

/// Returns a sliding log from which no charge expires during a test.
pub(crate) fn log_without_expiry(limit: u64) -> Quota {
    Quota::sliding_window_log(format!("{limit}/day").parse().unwrap()).unwrap()
}

/// Returns options without a cache of refusals, so that every check is sent to the server.
pub(crate) fn options(on_failure: OnFailure) -> LimitOptions {
    LimitOptions { on_failure, refusals: Refusals::Counted, lease: None, regional: false }
}
