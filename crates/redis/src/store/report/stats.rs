//! Statistics and events of a shared store.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_store::OnFailure;

use crate::regions::{MissingShare, RegionDivision};
use crate::store::breaker::state::BreakerState;
use crate::store::report::durations::{CallDurations, DurationCounters};
use crate::store::report::region_events;
use crate::transport::Cause;

/// Statistics of a shared store since it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// The number of checks decided, by any source.
    pub decisions: u64,
    /// The number of script calls sent for decisions.
    pub calls: u64,
    /// The number of checks that shared the call of another check.
    pub joined: u64,
    /// The number of checks refused from the cache.
    pub cached_refusals: u64,
    /// The number of charges refunded, by their owner or because the request was refused.
    pub refunds: u64,
    /// The number of refunds with an unknown outcome.
    pub lost_refunds: u64,
    /// The number of charges and payments of debts with an unknown outcome: the connection was lost before the reply
    /// arrived. At most this many were counted twice, or counted for a request that was refused.
    pub uncertain_charges: u64,
    /// The number of charges that passed because their server failed.
    pub fallbacks_open: u64,
    /// The number of charges refused because their server failed.
    pub fallbacks_closed: u64,
    /// The number of charges counted in this process because their server failed.
    pub fallbacks_local: u64,
    /// The number of failed calls, by the name of the cause.
    pub failures: Vec<(&'static str, u64)>,
    /// How many times a breaker opened.
    pub breakers_opened: u64,
    /// How many times a breaker closed again.
    pub breakers_closed: u64,
    /// The state of the breaker of each shard that was called, by number.
    pub breakers: Vec<(u32, BreakerState)>,
    /// The number of charges that were admitted while their server failed and will not be charged later, because the
    /// table of debts was full.
    pub dropped_debts: u64,
    /// The number of debts paid (charged at the servers) after the servers recovered, each of one key.
    pub paid_debts: u64,
    /// The number of keys with a debt: usage that was admitted while the servers failed and is not yet charged at them.
    pub debts: u64,
    /// The age of the oldest of these debts.
    pub oldest_debt: Duration,
    /// The number of checks decided by leases of this instance, without a call.
    pub leased_decisions: u64,
    /// The number of calls that leased or returned tokens.
    pub lease_calls: u64,
    /// The number of tokens leased.
    pub leased_tokens: u64,
    /// The number of leased tokens that were neither spent nor returned in time, and so count as spent.
    pub stranded_tokens: u64,
    /// The number of keys with leases at present.
    pub leased_keys: u64,
    /// The number of leased tokens that this instance may spend at present.
    pub leased_tokens_held: u64,
    /// The durations of the calls sent for decisions.
    pub call_durations: CallDurations,
    /// Whether other instances hash secret values under another key, so that the same clients are counted separately.
    pub secret_key_differs: bool,
}

/// An event that an operator should know of. Events are rare, not one for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEvent {
    /// All servers replied for the first time.
    Reached {
        /// The addresses of the servers.
        servers: Vec<String>,
    },
    /// Some servers do not reply after the start.
    Unreached {
        /// The addresses of these servers.
        servers: Vec<String>,
        /// The cause of the failure.
        cause: &'static str,
    },
    /// The breaker of a server opened: it gets no calls until a probe succeeds.
    BreakerOpened {
        /// The address of the server.
        server: String,
        /// The cause of the last failure that opened it.
        cause: &'static str,
    },
    /// A server with an open breaker fails for another reason than before.
    CauseChanged {
        /// The address of the server.
        server: String,
        /// The new cause.
        cause: &'static str,
    },
    /// The breaker of a server closed: it gets all calls again.
    BreakerClosed {
        /// The address of the server.
        server: String,
    },
    /// Calls failed because a key holds a value that tollgate did not write. Their servers have not failed.
    BadValue {
        /// The beginning of the names of the keys of one such call: the prefix and the rule.
        keys: Vec<String>,
        /// The cause of the failure.
        cause: &'static str,
        /// The number of such calls since the last event.
        calls: u64,
    },
    /// Debts were paid: usage that was admitted while the servers failed was charged at the servers.
    DebtsPaid {
        /// The number of debts, each of one key.
        debts: u64,
        /// The sum of the charges.
        amount: u64,
        /// The number of keys that still have a debt.
        still_owing: u64,
    },
    /// Other instances hash secret values under another key, so the same clients are counted separately.
    SecretKeyDiffers {
        /// The fingerprint of the key of this instance; `none` if it has none.
        ours: String,
        /// The fingerprint of the key of the other instances.
        theirs: String,
    },
    /// All instances hash secret values under the same key again.
    SecretKeyAgrees {
        /// The key's fingerprint; `none` if there is none.
        fingerprint: String,
    },
    /// A password file is unreadable or empty: new connections use the last password.
    PasswordUnreadable {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
    /// A password file is readable again.
    PasswordReadable {
        /// The file.
        file: String,
    },
    /// A server belongs to a cluster, but is used as a single server. Reported once.
    WrongMode {
        /// The address of the server.
        server: String,
    },
    /// A failing server left the topology: another one owns its slots.
    ServerLeft {
        /// The address of the server.
        server: String,
    },
    /// This instance knows the share of its region, and has synchronised with the global server of the regions.
    RegionSynced {
        /// The name of the region.
        region: String,
        /// Its share in thousandths of a limit's rate.
        share: u32,
        /// The agreed weights.
        division: RegionDivision,
    },
    /// The global server of the regions does not reply.
    GlobalUnreached {
        /// The addresses of the server, as configured.
        servers: Vec<String>,
        /// The name of this region.
        region: String,
        /// What the region enforces meanwhile at most, in thousandths of a limit's rate; `None` without a share.
        rate: Option<u32>,
    },
    /// The global server of the regions replies again.
    GlobalReached {
        /// The addresses of the server, as configured.
        servers: Vec<String>,
    },
    /// This region has no share of the limits that regions divide.
    ShareMissing {
        /// The name of the region.
        region: String,
        /// The reason.
        why: MissingShare,
    },
    /// Another instance of this region is running, although its counters are in memory: each enforces the whole share.
    SecondInstance {
        /// The name of the region.
        region: String,
    },
    /// This region has its share again.
    ShareRestored {
        /// The name of the region.
        region: String,
        /// The share in thousandths of a limit's rate.
        share: u32,
    },
    /// The regions have not agreed on the weights of this instance's policy, and continue with others.
    WeightsPending {
        /// The weights of the policy.
        configured: RegionDivision,
        /// The agreed weights.
        agreed: RegionDivision,
        /// The regions that have voted for others than the policy's.
        awaited: Vec<String>,
    },
    /// The regions have agreed on the weights of this instance's policy, after others.
    WeightsAgreed {
        /// The weights.
        division: RegionDivision,
    },
}

impl StoreEvent {
    /// Returns whether the event reports a failure.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        match self {
            StoreEvent::Reached { .. }
            | StoreEvent::BreakerClosed { .. }
            | StoreEvent::ServerLeft { .. }
            | StoreEvent::SecretKeyAgrees { .. }
            | StoreEvent::PasswordReadable { .. }
            | StoreEvent::RegionSynced { .. }
            | StoreEvent::GlobalReached { .. }
            | StoreEvent::ShareRestored { .. }
            | StoreEvent::WeightsPending { .. }
            | StoreEvent::WeightsAgreed { .. }
            | StoreEvent::DebtsPaid { .. } => false,
            StoreEvent::Unreached { .. }
            | StoreEvent::BreakerOpened { .. }
            | StoreEvent::CauseChanged { .. }
            | StoreEvent::SecretKeyDiffers { .. }
            | StoreEvent::PasswordUnreadable { .. }
            | StoreEvent::WrongMode { .. }
            | StoreEvent::GlobalUnreached { .. }
            | StoreEvent::ShareMissing { .. }
            | StoreEvent::SecondInstance { .. }
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
                "the store cannot be reached ({cause}): {}; until it answers, each rule applies its on_failure mode",
                servers.join(", ")
            ),
            StoreEvent::BreakerOpened { server, cause } => write!(
                f,
                "the store's server {server} fails ({cause}): until it answers again, each rule applies its on_failure mode"
            ),
            StoreEvent::CauseChanged { server, cause } => {
                write!(f, "the store's server {server} still fails, now for another reason ({cause})")
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
            StoreEvent::PasswordUnreadable { file, why } => {
                write!(f, "the password file {file} cannot be read ({why}): new connections use the last password")
            }
            StoreEvent::PasswordReadable { file } => write!(f, "the password file {file} can be read again"),
            StoreEvent::WrongMode { server } => write!(
                f,
                "the server {server} belongs to a cluster: write `mode: cluster` in the policy; until then, requests \
                 with keys in two hash slots fail (wrong-mode) and follow on_failure"
            ),
            StoreEvent::ServerLeft { server } => {
                write!(f, "the store's server {server}, which failed, left the topology: another server owns its keys")
            }
            event => region_events::describe(event, f),
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
    failures: [Counter; Cause::ALL.len()],
    pub(in crate::store) breakers_opened: Counter,
    pub(in crate::store) breakers_closed: Counter,
    pub(in crate::store) dropped_debts: Counter,
    pub(in crate::store) paid_debts: Counter,
    pub(in crate::store) leased_decisions: Counter,
    pub(in crate::store) lease_calls: Counter,
    pub(in crate::store) leased_tokens: Counter,
    pub(in crate::store) stranded_tokens: Counter,
    pub(in crate::store) call_durations: DurationCounters,
}

/// A counter. Relaxed order suffices, because nothing else depends on it.
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
    pub(in crate::store) fn count_failure(&self, cause: Cause) {
        self.failures[cause as usize].add(1);
    }

    pub(in crate::store) fn count_fallback(&self, mode: OnFailure) {
        let index = match mode {
            OnFailure::Open => 0,
            OnFailure::Closed => 1,
            OnFailure::Local { .. } => 2,
        };
        self.fallbacks[index].add(1);
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
            failures: Cause::ALL
                .iter()
                .zip(&self.failures)
                .map(|(cause, count)| (cause.name(), count.read()))
                .collect(),
            breakers_opened: self.breakers_opened.read(),
            breakers_closed: self.breakers_closed.read(),
            breakers,
            dropped_debts: self.dropped_debts.read(),
            paid_debts: self.paid_debts.read(),
            debts: debts.0 as u64,
            oldest_debt: debts.1,
            leased_decisions: self.leased_decisions.read(),
            lease_calls: self.lease_calls.read(),
            leased_tokens: self.leased_tokens.read(),
            stranded_tokens: self.stranded_tokens.read(),
            leased_keys: 0,
            leased_tokens_held: 0,
            call_durations: self.call_durations.snapshot(),
            secret_key_differs: false,
        }
    }
}
