use std::time::Duration;

use tollgate_store::{Capacity, MemoryOptions, WhenFull};

use crate::store::breaker::state::BreakerSettings;

/// How a shared store behaves.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// What the names of all keys begin with.
    pub prefix: String,
    /// By then every check has an answer, from the store or from what its limit does when the store fails.
    pub deadline: Duration,
    /// Whether checks alike wait for the one under way, and then travel together.
    pub joins: bool,
    /// Whether a refusal that still holds is answered from memory.
    pub remembers_refusals: bool,
    /// For how many keys refusals are remembered at most.
    pub remembered_keys: usize,
    /// For how many keys it is remembered at most what passed while the store failed. As many as are counted in
    /// this process then, because one is of no use without the other.
    pub owing_keys: usize,
    /// How long a permit is held at most where its quota does not say: a holder
    /// on a machine that is gone would keep it for ever.
    pub default_lease: Duration,
    /// How often something that is given back is sent again, where it is certain that it did not arrive.
    pub resends: u32,
    /// How long it waits before the first time. Doubled each time.
    pub resend_pause: Duration,
    /// By then what nobody waits for must be on its way.
    pub background_deadline: Duration,
    /// When a shard is not asked any more, and when again.
    pub breaker: BreakerSettings,
    /// How much is counted in this process while the store fails.
    pub fallback: MemoryOptions,
    /// Spreads the probes of many instances. Different for each of them.
    pub seed: u64,
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings {
            prefix: "tollgate:".into(),
            deadline: Duration::from_millis(20),
            joins: true,
            remembers_refusals: true,
            remembered_keys: 1 << 16,
            owing_keys: 1 << 17,
            default_lease: Duration::from_secs(60),
            resends: 4,
            resend_pause: Duration::from_millis(50),
            background_deadline: Duration::from_secs(1),
            breaker: BreakerSettings::default(),
            fallback: MemoryOptions { capacity: Capacity::Entries(1 << 17), when_full: WhenFull::default() },
            seed: 0,
        }
    }
}
