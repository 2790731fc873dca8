//! The task that synchronises this instance with its region, and its region with the others.

mod chunks;
mod epoch_rates;
mod send_report;
mod share;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::clock::ClockReading;
use super::division::Agreement;
use super::exchange::{Exchange, ExchangeServer, HashOp, HashReply, timed};
use super::rates::{EpochRates, KeyRates};
use super::{RegionSettings, RegionState};

/// When parts of the work of an epoch are due, in thousandths of its length.
const SHARE_AGAIN: u64 = 400;
const DEMAND: u64 = 650;
const GLOBAL: u64 = 700;
const REPORT: u64 = 780;
/// From then on no report is accepted. So the loans of the next epoch are known before it begins.
const CUTOFF: u64 = 900;

/// By how many epochs the global server's clock may go back, while instances wait for the next epoch. It is the time after
/// which what is stored for an epoch expires.
const MAX_EPOCHS_BACK: u64 = 4;

/// The names of hashes of one region, and of those that all regions share. No scope begins with `\.`. They differ,
/// because the global server may be that of a region too.
const OF_REGION: &str = "\\.region";
pub(super) const OF_ALL: &str = "\\.regions";

/// Synchronises one instance.
pub(crate) struct RegionSync {
    regions: Arc<RegionState>,
    exchange: Arc<dyn Exchange>,
    settings: RegionSettings,
    /// The prefix of the names of keys on the region's servers.
    prefix: String,
    /// The name of this instance in its region.
    instance: String,
    /// Whether a restart loses what the region has stored.
    forgets: bool,
    started_at: Option<u64>,
    is_first_epoch: bool,
    agreement: Agreement,
    /// The stored form of the agreement; `None` if it is not known.
    stored: Option<String>,
    /// Whether the region is to vote for the division of this instance's policy.
    votes: bool,
    clock: Option<ClockReading>,
    /// Until when calls to the global server may take, so that the share is read in time even if it does not answer.
    global_until: Instant,
    /// When demand was taken last.
    demand_since: Instant,
    epoch: EpochProgress,
}

/// What was done for an epoch, from the cutoff of the one before to its own.
#[derive(Clone, Debug, Default)]
struct EpochProgress {
    start_ms: u64,
    length_ms: u64,
    /// Whether it is known if the region has reported for this epoch.
    is_report_known: bool,
    /// Whether the rates of the epoch are known.
    are_rates_known: bool,
    has_read_share_again: bool,
    has_sent_demand: bool,
    has_synced: bool,
    has_reported: bool,
}

impl RegionSync {
    pub(crate) fn new(
        regions: &Arc<RegionState>,
        exchange: Arc<dyn Exchange>,
        settings: RegionSettings,
        prefix: String,
        instance: String,
        forgets: bool,
    ) -> RegionSync {
        regions.update_status(|status| {
            (status.configured, status.epoch) = (settings.division().describe(), settings.epoch);
        });
        RegionSync {
            regions: Arc::clone(regions),
            exchange,
            settings,
            prefix,
            instance,
            forgets,
            started_at: None,
            is_first_epoch: true,
            agreement: Agreement::default(),
            stored: None,
            votes: true,
            clock: None,
            global_until: Instant::now(),
            demand_since: Instant::now(),
            epoch: EpochProgress::default(),
        }
    }

    /// Synchronises until the task is aborted.
    pub(crate) async fn run(mut self) {
        loop {
            self.step().await;
            sleep(self.interval()).await;
        }
    }

    /// The time between two steps: a small part of an epoch.
    fn interval(&self) -> Duration {
        let epoch = Duration::from_millis(self.epoch_ms(u64::MAX));
        (epoch / 40).clamp(Duration::from_millis(5), Duration::from_millis(250))
    }

    /// Does what is due.
    pub(crate) async fn step(&mut self) {
        let Some((least_us, _)) = self.global_now() else { return self.start().await };
        let now_ms = least_us / 1_000;
        let length_ms = self.epoch_ms(now_ms);
        let start_ms = epoch_at(now_ms, length_ms);
        // Epochs do not go back with the clock, unless it was so far ahead that they would stand still for long.
        let was_ahead = start_ms + MAX_EPOCHS_BACK * length_ms < self.epoch.start_ms;
        if start_ms > self.epoch.start_ms || was_ahead {
            let lost = self.forgets
                && self.regions.faults.starts_with_reserve()
                && self.started_at.is_none_or(|first| start_ms < first + 2 * length_ms);
            self.started_at.get_or_insert(start_ms);
            self.is_first_epoch = self.epoch.start_ms == 0 || was_ahead;
            self.epoch = EpochProgress { start_ms, length_ms, ..EpochProgress::default() };
            self.regions.update_status(|status| status.epoch_start_ms = Some(start_ms));
            if self.read_share().await && lost {
                self.epoch.is_report_known = true;
                self.publish_kept(&KeyRates::new());
            }
        }
        if self.is_due(SHARE_AGAIN) && !self.epoch.has_read_share_again {
            self.epoch.has_read_share_again = self.read_share().await;
        }
        if !self.epoch.is_report_known {
            self.read_own_report().await;
        } else if !self.epoch.are_rates_known {
            self.end_global_calls_at(if self.is_due(SHARE_AGAIN) { DEMAND } else { SHARE_AGAIN });
            self.read_rates().await;
        }
        let Some((least_us, most_us)) = self.global_now() else { return };
        if epoch_at(least_us / 1_000, length_ms) > start_ms {
            return;
        }
        let is_due = |part: u64| least_us >= start_ms * 1_000 + length_ms * part;
        self.end_global_calls_at(CUTOFF);
        if is_due(DEMAND) && !self.epoch.has_sent_demand {
            self.epoch.has_sent_demand = self.send_demand().await;
        }
        if is_due(GLOBAL) && !self.epoch.has_synced {
            self.epoch.has_synced = self.sync_global().await;
        }
        let may_report = self.epoch.has_synced && self.epoch.has_sent_demand && !self.epoch.has_reported;
        if is_due(REPORT) && may_report && most_us < start_ms * 1_000 + length_ms * CUTOFF {
            self.epoch.has_reported = true;
            self.report().await;
        }
    }

    /// Returns whether a part of the epoch has passed, in thousandths.
    fn is_due(&self, part: u64) -> bool {
        let EpochProgress { start_ms, length_ms, .. } = self.epoch;
        self.global_now().is_some_and(|(least_us, _)| least_us >= start_ms * 1_000 + length_ms * part)
    }

    /// Ends calls to the global server at a part of the epoch, in thousandths, but leaves them some time: after a slow
    /// call the clock is known only roughly.
    fn end_global_calls_at(&mut self, part: u64) {
        let Some(clock) = self.clock else { return };
        let EpochProgress { start_ms, length_ms, .. } = self.epoch;
        let (earliest_ns, _) = clock.when(start_ms * 1_000 + length_ms * part);
        let at_least = Duration::from_millis(length_ms) / 5;
        self.global_until = (self.regions.base + Duration::from_nanos(earliest_ns)).max(Instant::now() + at_least);
    }

    /// Reads the share and the global server's clock for the first time. Until the clock is known, the region may lend
    /// all but its reserve.
    async fn start(&mut self) {
        self.global_until = Instant::now() + Duration::from_millis(self.epoch_ms(u64::MAX)) / 2;
        if self.read_share().await
            && !self.sync_global().await
            && let Some(share) = self.share()
        {
            let from_us = i64::try_from(self.now_ns() / 1_000).unwrap_or(i64::MAX);
            let (base, reserve, listed) = (share.reserve(), share.reserve(), Arc::default());
            let unknown = EpochRates { from_us, until_us: from_us, base, reserve, listed };
            self.regions.set_rates(unknown, from_us);
        }
    }

    /// Returns the least and the greatest time that the global server's clock may show, in microseconds.
    fn global_now(&self) -> Option<(u64, u64)> {
        Some(self.clock?.at(self.now_ns()))
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.regions.base.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the length of an epoch that has been agreed, or else that of the policy.
    fn epoch_ms(&self, now_ms: u64) -> u64 {
        let own_ms = u64::try_from(self.settings.epoch.as_millis()).unwrap_or(u64::MAX);
        self.agreement.epoch_ms(now_ms).unwrap_or(own_ms).max(1)
    }

    async fn call(&self, server: ExchangeServer, name: String, op: HashOp) -> Option<(ClockReading, HashReply)> {
        let sent_at = Instant::now();
        let call = timed(&*self.exchange, self.regions.base, server, name, op);
        let reply = match server {
            ExchangeServer::Regional => call.await,
            ExchangeServer::Global => timeout_at(self.global_until, call).await.ok().flatten(),
        };
        let failed = u64::from(reply.is_none());
        match server {
            ExchangeServer::Regional => self.regions.update_status(|status| status.regional_failures += failed),
            ExchangeServer::Global => {
                self.regions.note_global_call(sent_at, reply.is_some());
                self.regions.update_status(|status| status.global_failures += failed);
            }
        }
        reply
    }

    async fn call_region(&self, name: String, op: HashOp) -> Option<HashReply> {
        Some(self.call(ExchangeServer::Regional, name, op).await?.1)
    }

    /// Returns the name of the hash of an epoch, on the region's servers.
    fn epoch_hash(&self, start_ms: u64) -> String {
        format!("{}{OF_REGION}:{start_ms}", self.prefix)
    }

    fn global_hash(&self) -> String {
        format!("{}{OF_ALL}", self.settings.prefix)
    }

    fn chunks_hash(&self, start_ms: u64, region: &str, sender: &str) -> String {
        format!("{}{OF_ALL}:{start_ms}:{region}:{sender}", self.settings.prefix)
    }

    /// Keeps the narrowest reading of the global server's clock, unless the clock was set.
    fn observe(&mut self, reading: ClockReading) {
        let now_ns = self.now_ns();
        let (least, most) = reading.at(now_ns);
        let is_better = self.clock.is_none_or(|known| {
            let (known_least, known_most) = known.at(now_ns);
            most - least <= known_most - known_least || most < known_least || known_most < least
        });
        if is_better {
            self.clock = Some(reading);
        }
    }
}

/// Returns the start of the epoch for which reports are read at a time: the next one, after the cutoff.
fn epoch_at(now_ms: u64, length_ms: u64) -> u64 {
    let ahead_ms = now_ms + length_ms - accepted_ms(length_ms);
    ahead_ms - ahead_ms % length_ms
}

/// Returns for how long after the start of an epoch reports are accepted.
fn accepted_ms(length_ms: u64) -> u64 {
    length_ms * CUTOFF / 1_000
}
