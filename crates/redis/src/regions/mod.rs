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
mod fault_points;
#[cfg(test)]
mod hash_server;
mod loans;
mod messages;
mod rates;
mod report;
mod sync;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{Quota, RegionShare};

use self::demand::Demand;
pub(crate) use self::fault_points::RegionFaultPoints;
use self::rates::{EpochRates, Rates};
use crate::call::RefillSchedule;
use crate::wire::RedisOptions;

pub(crate) use division::Division;
pub(crate) use exchange::{Exchange, RedisExchange};
#[cfg(test)]
pub(crate) use exchange::{ExchangeServer, HashOp, HashReply};
#[cfg(test)]
pub(crate) use hash_server::HashServer;
pub(crate) use messages::write_scoped;
pub(crate) use sync::RegionSync;

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
    /// The start of the current epoch by the clock of the global server, in milliseconds since 1970.
    pub epoch_start_ms: Option<u64>,
    /// The time since the global server last replied to this instance.
    pub synced_before: Option<Duration>,
    /// The number of keys of which this region borrows a part of the rate, and lends one, in this epoch.
    pub borrowing_keys: u64,
    /// The number of keys of which this region lends a part of the rate.
    pub lending_keys: u64,
    /// The number of keys in this region's last report.
    pub reported_keys: u64,
    /// Epochs for which this instance has reported, read all reports, or failed to do so.
    pub reports: u64,
    /// Epochs of which this instance has read the reports of all regions.
    pub reads: u64,
    /// Calls to the global server or to the region's hashes that got no reply.
    pub failures: u64,
}

/// What an instance knows of the rates of its region, and what is asked of it.
pub(crate) struct Regions {
    /// The time to which all times in nanoseconds or microseconds refer.
    base: Instant,
    region: String,
    shared: RwLock<SharedRates>,
    demand: Demand,
    /// The scopes of all limits that are divided.
    scopes: Mutex<BTreeSet<String>>,
    status: Mutex<RegionStatus>,
    faults: RegionFaultPoints,
}

struct SharedRates {
    share: Option<RegionShare>,
    /// Until when the share is valid.
    valid_until: Instant,
    rates: Rates,
}

impl Regions {
    pub(crate) fn new(region: &str, faults: RegionFaultPoints) -> Regions {
        let base = Instant::now();
        Regions {
            base,
            region: region.to_owned(),
            shared: RwLock::new(SharedRates { share: None, valid_until: base, rates: Rates::new(base, faults) }),
            demand: Demand::new(),
            scopes: Mutex::default(),
            status: Mutex::new(RegionStatus { region: region.to_owned(), ..RegionStatus::default() }),
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
        let share = self.share(Instant::now()).map(|share| share.rate);
        RegionStatus { share, ..lock(&self.status).clone() }
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
    pub(crate) regions: Arc<Regions>,
}

impl std::fmt::Debug for Regions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Regions").field("region", &self.region).finish_non_exhaustive()
    }
}
