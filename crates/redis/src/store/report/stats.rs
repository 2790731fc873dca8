//! What a shared store has done, in numbers.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_store::OnFailure;

use crate::store::breaker::state::BreakerState;
use crate::store::report::durations::{CallDurations, DurationCounters};
use crate::transport::Cause;

/// What a shared store has done since it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Checks that were decided, in whatever way.
    pub decisions: u64,
    /// Script calls that were sent in order to decide.
    pub calls: u64,
    /// Checks that travelled in somebody else's call.
    pub joined: u64,
    /// Checks that were refused from memory.
    pub cached_refusals: u64,
    /// Charges that were given back, by their owner or because the whole did not pass.
    pub refunds: u64,
    /// Charges of which nobody knows whether giving them back arrived.
    pub lost_refunds: u64,
    /// Charges and payments of debts with an unknown outcome: the connection was lost before the answer arrived. At
    /// most this many were counted twice, or counted for a request that was refused.
    pub uncertain_charges: u64,
    /// Charges that passed because the store failed.
    pub fallbacks_open: u64,
    /// Charges that were refused because the store failed.
    pub fallbacks_closed: u64,
    /// Charges that were counted in this process because the store failed.
    pub fallbacks_local: u64,
    /// Calls that failed, by the cause's name.
    pub troubles: Vec<(&'static str, u64)>,
    /// How often a breaker opened.
    pub breakers_opened: u64,
    /// How often a breaker closed again.
    pub breakers_closed: u64,
    /// Each shard that was asked, by number.
    pub breakers: Vec<(u32, BreakerState)>,
    /// Charges that passed while the store failed and will not be charged later, because too many are.
    pub dropped_debts: u64,
    /// Debts that were charged when the servers were back, each that of one key.
    pub paid_debts: u64,
    /// Keys for which something passed that the servers have not counted yet.
    pub debts: u64,
    /// For how long the first of them has waited to be counted.
    pub oldest_debt: Duration,
    /// How long the calls took that were sent in order to decide.
    pub call_durations: CallDurations,
    /// Whether other instances hash secret values under another key, so that clients are counted apart.
    pub secret_key_differs: bool,
}

/// Something that an operator should hear of. It happens rarely, not with every request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEvent {
    /// All servers answered for the first time.
    Reached {
        /// Where they are.
        servers: Vec<String>,
    },
    /// After the start some servers do not answer.
    Unreached {
        /// Where they are.
        servers: Vec<String>,
        /// What the trouble is.
        cause: &'static str,
    },
    /// A server is not asked any more.
    BreakerOpened {
        /// Where it is.
        server: String,
        /// The last of the troubles that led to it.
        cause: &'static str,
    },
    /// A server that is not asked any more fails for another reason than before.
    CauseChanged {
        /// Where it is.
        server: String,
        /// What the trouble is now.
        cause: &'static str,
    },
    /// A server is asked again.
    BreakerClosed {
        /// Where it is.
        server: String,
    },
    /// Calls failed because a key holds a value that tollgate did not write. Their servers have not failed.
    BadValue {
        /// What the names of the keys of one such call begin with: the prefix and the rule.
        keys: Vec<String>,
        /// What the trouble is.
        cause: &'static str,
        /// The number of such calls since the last event.
        calls: u64,
    },
    /// What passed while the store failed was charged.
    DebtsPaid {
        /// How many debts, each that of one key.
        debts: u64,
        /// How much was charged for them.
        amount: u64,
        /// How many keys still owe something.
        still_owing: u64,
    },
    /// Other instances hash secret values under another key: their clients are counted apart from those here.
    SecretKeyDiffers {
        /// The fingerprint of the key of this instance; `none` if it has none.
        ours: String,
        /// That of the others.
        theirs: String,
    },
    /// All instances hash secret values under the same key again.
    SecretKeyAgrees {
        /// The key's fingerprint; `none` if there is none.
        fingerprint: String,
    },
    /// A failing server left the topology: another one owns its slots.
    ServerLeft {
        /// Where it is.
        server: String,
    },
}

impl StoreEvent {
    /// Whether something fails.
    #[must_use]
    pub const fn is_trouble(&self) -> bool {
        match self {
            StoreEvent::Reached { .. }
            | StoreEvent::BreakerClosed { .. }
            | StoreEvent::ServerLeft { .. }
            | StoreEvent::SecretKeyAgrees { .. }
            | StoreEvent::DebtsPaid { .. } => false,
            StoreEvent::Unreached { .. }
            | StoreEvent::BreakerOpened { .. }
            | StoreEvent::CauseChanged { .. }
            | StoreEvent::SecretKeyDiffers { .. }
            | StoreEvent::BadValue { .. } => true,
        }
    }
}

impl fmt::Display for StoreEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreEvent::Reached { servers } => write!(f, "the store answers: {}", servers.join(", ")),
            StoreEvent::Unreached { servers, cause } => write!(
                f,
                "the store cannot be reached ({cause}): {}; until it answers, each rule does what its on_failure says",
                servers.join(", ")
            ),
            StoreEvent::BreakerOpened { server, cause } => write!(
                f,
                "the store's server {server} fails ({cause}): until it answers again, each rule does what its on_failure says"
            ),
            StoreEvent::CauseChanged { server, cause } => {
                write!(f, "the store's server {server} fails still, and now otherwise ({cause})")
            }
            StoreEvent::BreakerClosed { server } => write!(f, "the store's server {server} answers again"),
            StoreEvent::BadValue { keys, cause, calls } => write!(
                f,
                "{calls} calls failed because a key under {} holds a value that tollgate did not write ({cause}): \
                 requests for that key follow on_failure until it is reset",
                keys.join(" or ")
            ),
            StoreEvent::DebtsPaid { debts, amount, still_owing } => {
                write!(f, "debts were charged to the store: {amount} for {debts} keys; {still_owing} keys still owe")
            }
            StoreEvent::SecretKeyDiffers { ours, theirs } => write!(
                f,
                "other instances on this store hash secret values under another key (fingerprint {theirs}, here {ours}): \
                 the same clients are counted apart, and this instance is not ready until `secrets` is the same everywhere"
            ),
            StoreEvent::SecretKeyAgrees { fingerprint } => write!(
                f,
                "all instances on this store hash secret values under the same key (fingerprint {fingerprint})"
            ),
            StoreEvent::ServerLeft { server } => {
                write!(f, "the store's server {server}, which failed, left the topology: another server owns its keys")
            }
        }
    }
}

#[derive(Debug, Default)]
pub(in crate::store) struct Counters {
    pub(in crate::store) decisions: Counter,
    pub(in crate::store) calls: Counter,
    pub(in crate::store) joined: Counter,
    pub(in crate::store) cached_refusals: Counter,
    pub(in crate::store) refunds: Counter,
    pub(in crate::store) lost_refunds: Counter,
    pub(in crate::store) uncertain_charges: Counter,
    fallbacks: [Counter; 3],
    troubles: [Counter; Cause::ALL.len()],
    pub(in crate::store) breakers_opened: Counter,
    pub(in crate::store) breakers_closed: Counter,
    pub(in crate::store) dropped_debts: Counter,
    pub(in crate::store) paid_debts: Counter,
    pub(in crate::store) call_durations: DurationCounters,
}

/// Nothing else depends on a counter, so its order among other writes does not matter.
#[derive(Debug, Default)]
pub(in crate::store) struct Counter(AtomicU64);

impl Counter {
    pub(in crate::store) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub(in crate::store) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(in crate::store) fn failed(&self, cause: Cause) {
        self.troubles[cause as usize].add(1);
    }

    pub(in crate::store) fn fell_back(&self, mode: OnFailure) {
        let at = match mode {
            OnFailure::Open => 0,
            OnFailure::Closed => 1,
            OnFailure::Local { .. } => 2,
        };
        self.fallbacks[at].add(1);
    }

    pub(in crate::store) fn snapshot(
        &self,
        breakers: Vec<(u32, BreakerState)>,
        debts: (usize, Duration),
    ) -> StoreStats {
        StoreStats {
            decisions: self.decisions.read(),
            calls: self.calls.read(),
            joined: self.joined.read(),
            cached_refusals: self.cached_refusals.read(),
            refunds: self.refunds.read(),
            lost_refunds: self.lost_refunds.read(),
            uncertain_charges: self.uncertain_charges.read(),
            fallbacks_open: self.fallbacks[0].read(),
            fallbacks_closed: self.fallbacks[1].read(),
            fallbacks_local: self.fallbacks[2].read(),
            troubles: Cause::ALL
                .iter()
                .zip(&self.troubles)
                .map(|(cause, count)| (cause.name(), count.read()))
                .collect(),
            breakers_opened: self.breakers_opened.read(),
            breakers_closed: self.breakers_closed.read(),
            breakers,
            dropped_debts: self.dropped_debts.read(),
            paid_debts: self.paid_debts.read(),
            debts: debts.0 as u64,
            oldest_debt: debts.1,
            call_durations: self.call_durations.snapshot(),
            secret_key_differs: false,
        }
    }
}
