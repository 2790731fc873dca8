use tollgate_store::{LimitOptions, OnFailure, Quota, Refusals};

/// Tokens of which none comes back during a test.
pub(crate) fn endless_bucket(burst: u64) -> Quota {
    Quota::token_bucket(format!("100/day burst {burst}").parse().unwrap()).unwrap()
}

/// A log that forgets nothing during a test.
pub(crate) fn endless_log(limit: u64) -> Quota {
    Quota::sliding_window_log(format!("{limit}/day").parse().unwrap()).unwrap()
}

/// A limit whose refusals are asked for each time, so that no answer comes from memory.
pub(crate) fn options(on_failure: OnFailure) -> LimitOptions {
    LimitOptions { on_failure, refusals: Refusals::Counted }
}
