//! Limits that several regions divide.
//!
//! Each region enforces its share of the rate and burst of a limit, on its own servers. In each *epoch* it reports to a
//! global server which part of the rate its keys need; after the epoch has ended, all regions read the same reports and
//! compute the same loans from them ([`report`]), which hold in the next epoch. The burst is never lent.
//!
//! A region withholds what it may have lent from before it has reported until it knows the loans, and uses what it has
//! borrowed only if it knows them, and only while the epoch certainly lasts ([`rates`]). So the rates of all regions are
//! never more than the limit's rate in sum, under any loss, delay or partition.

mod clock;
mod demand;
mod division;
mod exchange;
#[cfg(test)]
mod exchange_parity;
mod fault_points;
mod hash_server;
mod loans;
mod messages;
mod rates;
mod report;
mod sync;
mod votes;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{Quota, RegionShare};

use self::demand::RegionDemand;
pub(crate) use self::fault_points::RegionFaultPoints;
use self::rates::{EpochRates, Rates};
use crate::call::RefillSchedule;
use crate::wire::RedisOptions;

pub(crate) use division::Division;
pub(crate) use exchange::{Exchange, ExchangeServer, HashOp, HashReply, RedisExchange};
pub(crate) use hash_server::HashServer;
pub(crate) use messages::write_scoped;
pub(crate) use sync::RegionSync;
pub(crate) use votes::read_awaited_votes;

/// The regions that divide limits, and which of them this one is.
#[derive(Clone, Debug)]
pub struct RegionSettings {
    /// The name of this region.
    pub region: String,
    /// The weights of all regions, by name.
    pub weights: Vec<(String, u32)>,
    /// The length of an epoch, in whole milliseconds: rates are lent for one epoch at a time.
    pub epoch: Duration,
    /// The prefix of the names of all keys on the global server.
    pub prefix: String,
    /// The server that all regions share. It is not asked on the way of a request.
    pub global: RedisOptions,
}

impl RegionSettings {
    /// Returns the share of this region by its weight.
    pub(crate) fn share(&self) -> RegionShare {
        self.division().share(&self.region)
    }

    fn division(&self) -> Division {
        Division::new(u64::try_from(self.epoch.as_millis()).unwrap_or(u64::MAX), self.weights.clone())
    }
}

/// The state of the synchronisation with other regions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionStatus {
    /// The name of this region.
    pub region: String,
    /// The share of this region in thousandths of a limit's rate; `None` before the regions have agreed on one, or if the
    /// region's servers have not been read for an epoch. Then limits apply their failure mode.
    pub share: Option<u32>,
    /// The part of the share that is never lent, in thousandths of a limit's rate; 0 without a share.
    pub reserve: u32,
    /// Why the region has no share; `None` if it has one.
    pub missing_share: Option<MissingShare>,
    /// The length of an epoch: the agreed one, or that of the policy before one is agreed.
    pub epoch: Duration,
    /// The start of the current epoch by the clock of the global server, in milliseconds since 1970.
    pub epoch_start_ms: Option<u64>,
    /// The time since the store was opened.
    pub opened_before: Duration,
    /// The time since the global server last replied to a vote of this instance; `None` if it never did.
    pub synced_before: Option<Duration>,
    /// The time since which no call to the global server got a reply, if at least two were made; else `None`.
    pub global_silent_for: Option<Duration>,
    /// The weights and the epoch of the policy with which the store was opened.
    pub configured: RegionDivision,
    /// The weights and the epoch on which the regions have agreed, as known in this region.
    pub agreed: Option<RegionDivision>,
    /// The start of the epoch from which they hold, in milliseconds since 1970; 0 for the first ones.
    pub agreed_from_ms: u64,
    /// The regions that have voted for other weights or another epoch than the policy's; `None` unless those are
    /// [pending](RegionStatus::is_division_pending), and before the votes were read.
    pub awaited_votes: Option<Vec<String>>,
    /// The number of keys of which this region borrows a part of the rate in this epoch.
    pub borrowing_keys: u64,
    /// The number of keys of which this region lends a part of the rate.
    pub lending_keys: u64,
    /// The number of keys in the last report that this instance has sent.
    pub reported_keys: u64,
    /// Reports of this instance that the global server accepted. One instance reports for its region in each epoch.
    pub reports: u64,
    /// Epochs before which, as far as this instance knows, no report of its region was accepted: the region lends and
    /// borrows nothing in them. The first epoch after the start is not counted.
    pub missed_reports: u64,
    /// Epochs of which this instance has read the reports of all regions.
    pub reads: u64,
    /// Epochs for which another instance has reported for this region, although the region is in memory.
    pub second_instance_reports: u64,
    /// Calls to the global server that got no reply.
    pub global_failures: u64,
    /// Calls to the hashes on the region's servers that got no reply.
    pub regional_failures: u64,
}

impl RegionStatus {
    /// Returns whether the regions have agreed on other weights or another epoch than those of this instance's policy.
    #[must_use]
    pub fn is_division_pending(&self) -> bool {
        self.synced_before.is_some() && self.agreed.as_ref().is_some_and(|agreed| *agreed != self.configured)
    }
}

/// Why a region has no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingShare {
    /// The region has never learnt what the regions have agreed on.
    NothingAgreed,
    /// The weights that may hold do not all include this region.
    NotMember,
    /// This instance has not read its region's servers for an epoch.
    NotRead,
}

impl MissingShare {
    /// Returns the name in responses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MissingShare::NothingAgreed => "nothing-agreed",
            MissingShare::NotMember => "not-member",
            MissingShare::NotRead => "not-read",
        }
    }
}

/// The weights of regions and the length of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionDivision {
    /// The weights of all regions, in the order of their names.
    pub weights: Vec<(String, u32)>,
    /// The length of an epoch.
    pub epoch: Duration,
}

impl std::fmt::Display for RegionDivision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.weights.iter().try_for_each(|(name, weight)| write!(f, "{name}={weight} "))?;
        write!(f, "with sync {:?}", self.epoch)
    }
}

/// When the global server was called.
#[derive(Clone, Copy, Debug, Default)]
struct GlobalCalls {
    synced_at: Option<Instant>,
    /// When the first of the last calls was made, none of which got a reply, and how many there were.
    silent_since: Option<(Instant, u32)>,
}

/// What an instance knows of the rates of its region, and what is asked of it.
pub(crate) struct RegionState {
    /// The time to which all times in nanoseconds or microseconds refer.
    base: Instant,
    region: String,
    shared: RwLock<SharedRates>,
    demand: RegionDemand,
    /// The scopes of all limits that are divided.
    scopes: Mutex<BTreeSet<String>>,
    status: Mutex<RegionStatus>,
    global_calls: Mutex<GlobalCalls>,
    faults: RegionFaultPoints,
}

struct SharedRates {
    share: Option<RegionShare>,
    /// Until when the share is valid.
    valid_until: Instant,
    rates: Rates,
}

impl RegionState {
    pub(crate) fn new(region: &str, faults: RegionFaultPoints) -> RegionState {
        let base = Instant::now();
        RegionState {
            base,
            region: region.to_owned(),
            shared: RwLock::new(SharedRates { share: None, valid_until: base, rates: Rates::new(base, faults) }),
            demand: RegionDemand::new(),
            scopes: Mutex::default(),
            status: Mutex::new(RegionStatus { region: region.to_owned(), ..RegionStatus::default() }),
            global_calls: Mutex::default(),
            faults,
        }
    }

    /// Registers the scope of a limit that is divided. Returns the scope's name in reports: limits with the same name and
    /// other quotas do not lend to each other.
    pub(crate) fn register(&self, scope: &str, limit: &Quota) -> Box<str> {
        let name = format!("{scope} {}/{} {}", limit.amount(), limit.period_ns(), limit.burst());
        lock(&self.scopes).insert(name.clone());
        name.into()
    }

    /// The time to which the spans of schedules refer.
    pub(crate) fn base(&self) -> Instant {
        self.base
    }

    /// Returns the share that this region enforces; `None` if it may enforce none.
    pub(crate) fn share(&self, now: Instant) -> Option<RegionShare> {
        let shared = self.read();
        shared.share.filter(|share| now < shared.valid_until && share.rate > 0)
    }

    /// Counts a request for a key.
    pub(crate) fn count(&self, key: &[u8], cost: u64, limit: &Quota) {
        self.demand.count(key, cost, limit);
    }

    /// Returns the rate of a key in thousandths of its limit's rate, for the retry times of answers.
    pub(crate) fn rate_at(&self, key: &[u8], now: Instant) -> u32 {
        self.read().rates.rate_at(key, now)
    }

    /// Returns the schedule by which a key is refilled.
    pub(crate) fn schedule(&self, key: &[u8], now: Instant) -> RefillSchedule {
        let shared = self.read();
        shared.rates.schedule(key, now, shared.valid_until)
    }

    pub(crate) fn status(&self) -> RegionStatus {
        let now = Instant::now();
        let share = self.share(now);
        let calls = *lock(&self.global_calls);
        let known = lock(&self.status).clone();
        // If it is not known that there is none, it was not read.
        let missing_share = known.missing_share.unwrap_or(MissingShare::NotRead);
        let silent = calls.silent_since.filter(|(_, calls)| *calls > 1);
        RegionStatus {
            share: share.map(|share| share.rate),
            reserve: share.map_or(0, RegionShare::reserve),
            missing_share: share.is_none().then_some(missing_share),
            opened_before: now.saturating_duration_since(self.base),
            synced_before: calls.synced_at.map(|at| now.saturating_duration_since(at)),
            global_silent_for: silent.map(|(since, _)| now.saturating_duration_since(since)),
            ..known
        }
    }

    /// Records whether a call to the global server got a reply.
    fn note_global_call(&self, sent_at: Instant, has_replied: bool) {
        let mut calls = lock(&self.global_calls);
        let (since, count) = calls.silent_since.unwrap_or((sent_at, 0));
        calls.silent_since = (!has_replied).then_some((since, count.saturating_add(1)));
    }

    /// Records which regions have voted for another division than that of the policy.
    pub(crate) fn note_awaited_votes(&self, awaited: Option<Vec<String>>) {
        self.update_status(|status| status.awaited_votes = awaited);
    }

    fn note_synced(&self, at: Instant) {
        lock(&self.global_calls).synced_at = Some(at);
    }

    fn update_status(&self, update: impl FnOnce(&mut RegionStatus)) {
        update(&mut lock(&self.status));
    }

    /// Sets the share, which is valid until a time.
    fn set_share(&self, share: Option<RegionShare>, valid_until: Instant, now: Instant) {
        let mut shared = self.write();
        if shared.valid_until < now {
            // Nothing is known of the time in between.
            let until = shared.valid_until;
            shared.rates.end(until);
        }
        shared.valid_until = valid_until;
        shared.share = share;
    }

    fn set_rates(&self, epoch: EpochRates, next_from_us: i64) {
        self.write().rates.set(epoch, next_from_us);
    }

    fn read(&self) -> RwLockReadGuard<'_, SharedRates> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SharedRates> {
        self.shared.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A limit that regions divide.
#[derive(Debug)]
pub(crate) struct RegionalLimit {
    /// The name of its scope in reports.
    pub(crate) scope: Box<str>,
    /// The quota of all regions together.
    pub(crate) whole: Quota,
    /// The length of the part of the names of its keys that differs between regions or repeats the scope.
    pub(crate) name_prefix_len: usize,
    pub(crate) regions: Arc<RegionState>,
}

impl std::fmt::Debug for RegionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegionState").field("region", &self.region).finish_non_exhaustive()
    }
}
