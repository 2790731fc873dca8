use std::time::Duration;

use tollgate_store::{Capacity, MemoryOptions, WhenFull};

use crate::regions::RegionSettings;
use crate::store::breaker::state::BreakerSettings;

/// The settings of a shared store.
#[derive(Clone, Debug)]
pub struct RedisStoreSettings {
    /// The prefix of the names of all keys.
    pub prefix: String,
    /// The time after which every check is decided, by the server or by the failure mode of its limits.
    pub deadline: Duration,
    /// Whether a check waits briefly while a call for an equal check is in flight. Then all equal checks that waited
    /// share one call.
    pub coalesces_checks: bool,
    /// Whether checks of exhausted keys are refused from a cache, without a call.
    pub caches_refusals: bool,
    /// The maximum number of keys in the cache of refusals.
    pub refusal_cache_capacity: usize,
    /// The maximum number of keys with a debt: usage that was admitted while the servers failed and is not yet charged
    /// at them. By default as many keys as the fallback counts, because a debt without a local count, or a count
    /// without a debt, is of no use.
    pub debt_table_capacity: usize,
    /// The lease of permits whose quota has none: without it, a holder on a dead machine would keep its permit for
    /// ever.
    pub default_lease: Duration,
    /// The number of times that a call in the background (refund, credit, settlement, renewal or reset) is resent if it
    /// was certainly not executed.
    pub resends: u32,
    /// The pause before the first resend. Doubled each time.
    pub resend_pause: Duration,
    /// The time within which a call in the background must be sent.
    pub background_deadline: Duration,
    /// The settings of the circuit breaker of each shard.
    pub breaker: BreakerSettings,
    /// The capacity of the counters in this process while the servers fail.
    pub fallback: MemoryOptions,
    /// The regions that divide limits; `None` if there is only one.
    pub regions: Option<RegionSettings>,
    /// The seed of the jitter that spreads the probes of many instances. Should differ between instances.
    pub seed: u64,
}

impl Default for RedisStoreSettings {
    fn default() -> RedisStoreSettings {
        RedisStoreSettings {
            prefix: "tollgate:".into(),
            deadline: Duration::from_millis(20),
            coalesces_checks: true,
            caches_refusals: true,
            refusal_cache_capacity: 1 << 16,
            debt_table_capacity: 1 << 17,
            default_lease: Duration::from_secs(60),
            resends: 4,
            resend_pause: Duration::from_millis(50),
            background_deadline: Duration::from_secs(1),
            breaker: BreakerSettings::default(),
            fallback: MemoryOptions { capacity: Capacity::Entries(1 << 17), when_full: WhenFull::default() },
            regions: None,
            seed: 0,
        }
    }
}
