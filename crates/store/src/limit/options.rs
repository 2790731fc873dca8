use std::time::Duration;

/// The options of a limit in a store that can fail or is remote. A store in this process ignores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOptions {
    /// The effect of a store failure on checks.
    pub on_failure: OnFailure,
    /// How long a refusal may be remembered.
    pub refusals: Refusals,
    /// Whether an instance may lease tokens ahead of requests and spend them without a call, and the time for which a
    /// lease is counted at least. Whole milliseconds; concurrency limits and queues ignore it. `None`: every request is
    /// decided by the store.
    pub lease: Option<Duration>,
    /// Whether the limit is divided among regions: this store enforces the share of its region. Concurrency limits,
    /// queues and windows cannot be divided.
    pub regional: bool,
}

impl Default for LimitOptions {
    fn default() -> LimitOptions {
        LimitOptions {
            on_failure: OnFailure::Local { share: (1, 2) },
            refusals: Refusals::Brief,
            lease: None,
            regional: false,
        }
    }
}

/// The effect of a store failure on checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The check passes.
    Open,
    /// The check is refused with `Unavailable`, a fault of the store.
    Closed,
    /// This instance counts alone, with a share of the quota.
    Local {
        /// The share, as numerator and denominator.
        share: (u32, u32),
    },
}

/// Whether an instance may remember a refusal while it is valid, and refuse without asking the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusals {
    /// Never by itself: a refusal is answered from the cache only while a `Final` guard of the same request refuses
    /// too. (For that case an instance keeps the state of the exhausted key, for at most a second.) For permits, which
    /// can be released at any time, and for counted refusals.
    Counted,
    /// Like `Counted`; but every charge comes with a guard of the same key, whose limit is `Final`: while the guard
    /// refuses, nothing is charged. So the state of the key is kept then even if it is not exhausted.
    Guarded,
    /// For a moment only, because charges may be refunded.
    #[default]
    Brief,
    /// Until its retry time, because charges are never refunded.
    Final,
}
