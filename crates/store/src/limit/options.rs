/// What a store that can fail, or that is far away, may do with a limit. One in
/// this process has no use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOptions {
    /// What happens to a check when the store fails.
    pub on_failure: OnFailure,
    /// How long a refusal stays true.
    pub refusals: Refusals,
}

impl Default for LimitOptions {
    fn default() -> LimitOptions {
        LimitOptions { on_failure: OnFailure::Local { share: (1, 2) }, refusals: Refusals::Brief }
    }
}

/// What happens to a check when the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// It passes.
    Open,
    /// It is refused, and said to be the store's trouble.
    Closed,
    /// This instance counts on its own, with this share of the quota: numerator and denominator.
    Local {
        /// Numerator and denominator.
        share: (u32, u32),
    },
}

/// Whether a refusal may be answered from memory as long as it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusals {
    /// Each must reach the store: permits, which come back at any time, and what is counted.
    Counted,
    /// Like `Counted`. Besides, every charge comes with a guard of the same key, whose limit is `Final`: while the
    /// guard refuses, nothing is charged.
    Guarded,
    /// Something may be given back, so for a moment only.
    #[default]
    Brief,
    /// Nothing is ever given back: until the time at which it ends.
    Final,
}
