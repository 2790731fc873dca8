//! The task that synchronises this instance with its region, and its region with the others.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tollgate_core::RegionShare;

use super::clock::ClockReading;
use super::demand::{MAX_KEYS, needed_millionths};
use super::division::{Agreed, Agreement, Division};
use super::exchange::{Exchange, ExchangeServer, HashOp, HashReply, fields, timed};
use super::messages::{self, ScopedKey};
use super::rates::{EpochRates, KeyRates};
use super::report::{RegionReport, ReportHeader, balances, kept_rates, listed};
use super::{MissingShare, RegionSettings, RegionState, lock};
use crate::resp_value::Value;

/// The most chunks in one call, so that no call keeps a server busy for long.
const CHUNKS_PER_CALL: usize = 8;

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

/// The times of an epoch by the clock of this instance, in microseconds since the base.
struct EpochTimes {
    /// It has begun at the latest.
    from_us: i64,
    /// It ends at the earliest, and at the latest.
    until_us: i64,
    next_from_us: i64,
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

    // The share.

    /// Reads what the regions have agreed on, as stored in this region, and applies it. Returns whether that succeeded.
    async fn read_share(&mut self) -> bool {
        let asked_at = Instant::now();
        let name = format!("{}{OF_REGION}", self.prefix);
        let get = HashOp::Get { fields: vec!["agreement".to_owned()] };
        let Some(values) = self.call_region(name, get).await else { return false };
        let stored = match values.into_iter().next() {
            Some(Value::Bulk(Some(bytes))) => String::from_utf8(bytes).unwrap_or_default(),
            _ => String::new(),
        };
        if let Some(agreement) = Agreement::decode(&stored) {
            self.agreement = agreement;
            self.stored = Some(stored);
            self.apply_share(asked_at);
        }
        self.stored.is_some()
    }

    /// Stores what the regions have agreed on. Returns whether it was as this instance knew it.
    async fn store_agreement(&mut self, agreement: Agreement) -> bool {
        let asked_at = Instant::now();
        let Some(expected) = self.stored.clone() else { return false };
        let value = agreement.encode();
        if value == expected {
            self.apply_share(asked_at);
            return true;
        }
        let swap = HashOp::Swap { field: "agreement", expected, value: value.clone() };
        // Unless it is known to be stored, it is read again before anything else is done with it.
        self.stored = None;
        let replied = self.call_region(format!("{}{OF_REGION}", self.prefix), swap).await;
        let is_stored = matches!(replied.as_deref(), Some([Value::Integer(1), ..]));
        if is_stored {
            (self.agreement, self.stored) = (agreement, Some(value));
            self.apply_share(asked_at);
        }
        is_stored
    }

    /// Enforces the share that has been agreed. It is valid for one epoch, because a change of it holds from an epoch
    /// after the next one.
    fn apply_share(&self, asked_at: Instant) {
        let now_ms = self.global_now().map_or(0, |(least_us, _)| least_us / 1_000);
        let mut share = self.agreement.share(&self.settings.region, now_ms);
        if self.regions.faults.ignores_votes() {
            share = share.map(|_| self.settings.share());
        }
        self.describe_agreement(share, now_ms);
        // Clocks may run apart by this much meanwhile.
        let valid = Duration::from_millis(self.epoch_ms(now_ms)).mul_f64(0.999);
        self.regions.set_share(share, asked_at + valid, Instant::now());
    }

    fn share(&self) -> Option<RegionShare> {
        self.regions.share(Instant::now())
    }

    fn describe_agreement(&self, share: Option<RegionShare>, now_ms: u64) {
        let missing_share = match share {
            None => Some(MissingShare::NothingAgreed),
            Some(share) if share.rate == 0 => Some(MissingShare::NotMember),
            Some(_) => None,
        };
        let epoch = Duration::from_millis(self.epoch_ms(now_ms));
        self.regions.update_status(|status| {
            (status.missing_share, status.epoch) = (missing_share, epoch);
            if let Some(agreed) = &self.agreement.agreed {
                (status.agreed, status.agreed_from_ms) = (Some(agreed.division.describe()), agreed.since_ms);
            }
        });
    }

    /// Reads the global server's clock and what the regions have agreed on, and votes.
    async fn sync_global(&mut self) -> bool {
        if self.stored.is_none() && !self.read_share().await {
            return false;
        }
        let own = self.settings.division();
        if self.votes && self.agreement.votes.last() != Some(&own) {
            let mut agreement = self.agreement.clone();
            agreement.will_vote(&own);
            if !self.store_agreement(agreement).await {
                return false;
            }
        }
        let Some(vote) = self.agreement.votes.last() else { return false };
        let vote = HashOp::Vote {
            region: self.settings.region.clone(),
            number: self.agreement.last_vote,
            division: vote.to_string(),
            known: self.agreement.agreed.as_ref().map(Agreed::texts).unwrap_or_default(),
        };
        let replied = self.call(ExchangeServer::Global, self.global_hash(), vote).await;
        let Some((reading, reply)) = replied else { return false };
        self.observe(reading);
        self.regions.note_synced(Instant::now());
        self.votes = false;
        let [Value::Integer(number), Value::Bulk(Some(agreed)), Value::Bulk(Some(previous))] = &reply[..] else {
            return false;
        };
        let mut agreement = self.agreement.clone();
        let standing = u64::try_from(*number).unwrap_or(0);
        if standing == agreement.last_vote {
            agreement.votes.drain(..agreement.votes.len() - 1);
        } else {
            // The region has forgotten its last votes. The next one counts.
            agreement.last_vote = standing;
            self.votes = true;
            agreement.votes.clear();
        }
        let Some(agreed) = parse_agreed(agreed, previous) else { return false };
        agreement.agreed = Some(agreed);
        self.store_agreement(agreement).await
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

    // The rates of this epoch.

    fn times(&self) -> Option<EpochTimes> {
        let clock = self.clock?;
        let EpochProgress { start_ms, length_ms, .. } = self.epoch;
        let us = |ns: u64| i64::try_from(ns / 1_000).unwrap_or(i64::MAX);
        let (_, from_ns) = clock.when(start_ms * 1_000);
        let (until_ns, next_from_ns) = clock.when((start_ms + length_ms) * 1_000);
        Some(EpochTimes { from_us: us(from_ns) + 1, until_us: us(until_ns), next_from_us: us(next_from_ns) + 1 })
    }

    fn publish(&mut self, base: u32, reserve: u32, listed: KeyRates) {
        let Some(EpochTimes { from_us, until_us, next_from_us }) = self.times() else { return };
        if until_us <= from_us {
            return;
        }
        let until_us = self.regions.faults.end_of_rates(until_us, (self.epoch.length_ms * 1_000) as i64);
        let epoch = EpochRates { from_us, until_us, base, reserve, listed: Arc::new(listed) };
        self.regions.set_rates(epoch, next_from_us.max(until_us));
    }

    /// Enforces what the region has not offered, until the loans are known.
    fn publish_kept(&mut self, needs: &KeyRates) {
        let Some(share) = self.share() else { return };
        self.publish(share.reserve(), share.reserve(), kept_rates(needs, share));
    }

    /// Enforces the share, with what is lent and borrowed.
    fn publish_balances(&mut self, balances: &HashMap<ScopedKey, i32>) {
        let Some(share) = self.share() else { return };
        let faults = self.regions.faults;
        let rate = |balance: i32| share.rate.saturating_add_signed(faults.withheld(balance)).min(RegionShare::WHOLE);
        let listed = balances.iter().map(|(key, balance)| (key.clone(), rate(*balance))).collect();
        self.publish(share.rate, share.reserve(), listed);
        self.epoch.are_rates_known = true;
        let borrowing = balances.values().filter(|balance| **balance > 0).count() as u64;
        self.regions.update_status(|status| {
            status.borrowing_keys = borrowing;
            status.lending_keys = balances.len() as u64 - borrowing;
        });
    }

    /// Reads whether the region has reported for this epoch. If not, it lends and borrows nothing.
    async fn read_own_report(&mut self) {
        let name = self.epoch_hash(self.epoch.start_ms);
        let get = HashOp::Get { fields: ["report", "kept"].map(str::to_owned).to_vec() };
        let Some(values) = self.call_region(name.clone(), get).await else { return };
        let [report, kept] = &values[..] else { return };
        if !self.regions.faults.may_have_offered(!matches!(report, Value::Bulk(None)), self.is_first_epoch) {
            self.epoch.is_report_known = true;
            self.note_missed_report();
            return self.publish_balances(&HashMap::new());
        }
        let kept = match count(kept) {
            Some(chunks) => self.read_chunks(ExchangeServer::Regional, &name, "kept", chunks).await.unwrap_or_default(),
            None => Vec::new(),
        };
        self.epoch.is_report_known = true;
        self.publish_kept(&kept.into_iter().map(|(key, need)| (key, need as u32)).collect());
    }

    /// Reads the loans of this epoch: from the region, if another instance has computed them, or from the reports.
    async fn read_rates(&mut self) {
        let EpochProgress { start_ms, length_ms, .. } = self.epoch;
        let name = self.epoch_hash(start_ms);
        let get = HashOp::Get { fields: vec!["balances".to_owned()] };
        let Some(values) = self.call_region(name.clone(), get).await else { return };
        if let Some(chunks) = values.first().and_then(count) {
            let read = self.read_chunks(ExchangeServer::Regional, &name, "balances", chunks).await;
            if let Some(read) = read {
                let balances = read.into_iter().map(|(key, amount)| (key, amount as i32 - BALANCE_OFFSET)).collect();
                self.publish_balances(&balances);
            }
            return;
        }
        let (owner, lease_ms) = (self.instance.clone(), length_ms / 4);
        let claim = HashOp::Claim { ttl_ms: 4 * length_ms, field: "reading", owner, lease_ms };
        let replied = self.call_region(name.clone(), claim).await;
        if !matches!(replied.as_deref(), Some([Value::Integer(1)])) {
            return;
        }
        let Some(reports) = self.read_reports(start_ms.saturating_sub(length_ms), length_ms).await else { return };
        let balances = balances(&self.settings.region, &reports);
        self.regions.update_status(|status| status.reads += 1);
        if !reports.iter().any(|(region, _)| *region == self.settings.region) {
            self.note_missed_report();
        }
        self.publish_balances(&balances);
        let amounts: Vec<(ScopedKey, u64)> =
            balances.into_iter().map(|(key, balance)| (key, (balance + BALANCE_OFFSET) as u64)).collect();
        // If that fails, another instance reads the reports too.
        let _ = self.put_chunks(ExchangeServer::Regional, &name, "balances", &amounts, true, 4 * length_ms).await;
    }

    fn note_missed_report(&self) {
        if !self.is_first_epoch {
            self.regions.update_status(|status| status.missed_reports += 1);
        }
    }

    /// Reads the reports of all regions to an epoch that has ended.
    async fn read_reports(&mut self, start_ms: u64, length_ms: u64) -> Option<Vec<(String, RegionReport)>> {
        let read = HashOp::Read { start_ms, length_ms: accepted_ms(length_ms) };
        let (reading, values) = self.call(ExchangeServer::Global, self.global_hash(), read).await?;
        self.observe(reading);
        let Some((Value::Integer(1), values)) = values.split_first() else { return None };
        let mut headers = Vec::new();
        for (field, value) in fields(values) {
            let region = field.splitn(3, ':').nth(2)?.to_owned();
            headers.push((region, ReportHeader::decode(str::from_utf8(value).ok()?)?));
        }
        let this = &*self;
        self.note_senders(start_ms, &headers);
        let read = headers.into_iter().map(|(region, header)| async move {
            let name = this.chunks_hash(start_ms, &region, &header.sender);
            let needs = this.read_chunks(ExchangeServer::Global, &name, "needs", header.chunks).await?;
            let needs = needs.into_iter().map(|(key, need)| (key, need as u32)).collect();
            let ReportHeader { share, reserve, blanket, .. } = header;
            Some((region, RegionReport { share, reserve, blanket, needs }))
        });
        let mut reports = join_all(read).await.into_iter().collect::<Option<Vec<_>>>()?;
        // The order of regions decides between equal wants.
        reports.sort_by(|(a, _), (b, _)| a.cmp(b));
        Some(reports)
    }

    /// Notes a report of another instance for a region in memory, which must be one instance. The last reports before this
    /// instance was started are those of the one before.
    fn note_senders(&self, start_ms: u64, headers: &[(String, ReportHeader)]) {
        let is_own = self.forgets && self.started_at.is_some_and(|first| start_ms > first);
        let is_other = |(region, header): &(String, ReportHeader)| {
            *region == self.settings.region && header.sender != self.instance
        };
        if is_own && headers.iter().any(is_other) {
            self.regions.update_status(|status| status.second_instance_reports += 1);
        }
    }

    // The report for the next epoch.

    fn next_start_ms(&self) -> u64 {
        self.epoch.start_ms + self.epoch.length_ms
    }

    /// Stores in the region what was asked of this instance.
    async fn send_demand(&mut self) -> bool {
        let now = Instant::now();
        let span_us = u64::try_from((now - self.demand_since).as_micros()).unwrap_or(u64::MAX);
        let (asked, is_complete) = self.regions.demand.take();
        self.demand_since = now;
        let needs: Vec<(ScopedKey, u64)> =
            asked.into_iter().map(|(key, asked)| (key, needed_millionths(asked, span_us).into())).collect();
        let (name, ttl_ms) = (self.epoch_hash(self.next_start_ms()), 4 * self.epoch.length_ms);
        let field = format!("demand:{}", self.instance);
        if self.put_chunks(ExchangeServer::Regional, &name, &field, &needs, false, ttl_ms).await.is_none() {
            // What was asked is not reported. That costs throughput in the next epoch, and nothing else.
            return true;
        }
        let chunks = needs.len().div_ceil(messages::KEYS_PER_CHUNK);
        let complete = if is_complete { "complete" } else { "incomplete" };
        let header = (format!("demand-of:{}", self.instance), format!("{chunks} {complete}").into_bytes());
        let _ = self.call_region(name, HashOp::Put { ttl_ms, fields: vec![header] }).await;
        true
    }

    /// Returns what was asked of all instances of the region, and whether that is complete.
    async fn read_demand(&self, name: &str) -> Option<(HashMap<ScopedKey, u64>, bool)> {
        let values = self.call_region(name.to_owned(), HashOp::All { prefix: "demand-of:".to_owned() }).await?;
        let (mut needs, mut is_complete) = (HashMap::new(), true);
        for (field, value) in fields(&values) {
            let instance = field.strip_prefix("demand-of:")?;
            let (chunks, complete) = str::from_utf8(value).ok()?.split_once(' ')?;
            is_complete &= complete == "complete";
            let field = format!("demand:{instance}");
            let read = self.read_chunks(ExchangeServer::Regional, name, &field, chunks.parse().ok()?).await?;
            for (key, millionths) in read {
                *needs.entry(key).or_insert(0) += millionths;
            }
        }
        Some((needs, is_complete))
    }

    /// Reports for the next epoch, unless another instance does.
    async fn report(&mut self) {
        let EpochProgress { start_ms, length_ms, .. } = self.epoch;
        let next_ms = self.next_start_ms();
        let Some(share) = self.share() else { return };
        if self.agreement.is_changing(next_ms) {
            return;
        }
        let (name, ttl_ms) = (self.epoch_hash(next_ms), 4 * length_ms);
        // From now on the region withholds in the next epoch what it may have offered.
        let claim = HashOp::Claim { ttl_ms, field: "report", owner: self.instance.clone(), lease_ms: 0 };
        let replied = self.call_region(name.clone(), claim).await;
        if !matches!(replied.as_deref(), Some([Value::Integer(1)])) {
            return;
        }
        let Some((needs, is_complete)) = self.read_demand(&name).await else { return };
        let (needs, lists_all) = listed(needs, share, MAX_KEYS);
        let mut amounts: Vec<(ScopedKey, u64)> = needs.into_iter().map(|(key, need)| (key, need.into())).collect();
        amounts.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        if self.put_chunks(ExchangeServer::Regional, &name, "kept", &amounts, true, ttl_ms).await.is_none() {
            return;
        }
        let chunks_hash = self.chunks_hash(start_ms, &self.settings.region, &self.instance);
        if self.put_chunks(ExchangeServer::Global, &chunks_hash, "needs", &amounts, false, ttl_ms).await.is_none() {
            return;
        }
        // Keys that are not listed may need their share if there are more than can be listed.
        let blanket = if is_complete && lists_all { lock(&self.regions.scopes).clone() } else { Default::default() };
        let header = ReportHeader {
            share: share.rate,
            reserve: share.reserve(),
            blanket,
            chunks: amounts.len().div_ceil(messages::KEYS_PER_CHUNK),
            sender: self.instance.clone(),
        };
        let (region, text) = (self.settings.region.clone(), header.encode());
        let report = HashOp::Report { region, start_ms, length_ms: accepted_ms(length_ms), text };
        let replied = self.call(ExchangeServer::Global, self.global_hash(), report).await;
        let is_accepted = matches!(replied, Some((_, ref values)) if values[..] == [Value::Integer(1)]);
        self.regions.update_status(|status| {
            status.reports += u64::from(is_accepted);
            status.reported_keys = amounts.len() as u64;
        });
    }

    // Chunks.

    /// Stores amounts in fields `<field>:<number>`, and if asked their number in `<field>` at last.
    async fn put_chunks(
        &self,
        server: ExchangeServer,
        name: &str,
        field: &str,
        amounts: &[(ScopedKey, u64)],
        counts: bool,
        ttl_ms: u64,
    ) -> Option<()> {
        let chunks = messages::encode(amounts);
        let count = chunks.len();
        let mut fields: Vec<(String, Vec<u8>)> =
            chunks.into_iter().enumerate().map(|(number, chunk)| (format!("{field}:{number}"), chunk)).collect();
        if counts {
            fields.push((field.to_owned(), count.to_string().into_bytes()));
        }
        for fields in fields.chunks(CHUNKS_PER_CALL) {
            let put = HashOp::Put { ttl_ms, fields: fields.to_vec() };
            self.call(server, name.to_owned(), put).await?;
        }
        Some(())
    }

    /// Reads amounts. `None` if any is missing.
    async fn read_chunks(
        &self,
        server: ExchangeServer,
        name: &str,
        field: &str,
        count: usize,
    ) -> Option<Vec<(ScopedKey, u64)>> {
        let mut amounts = Vec::new();
        let names: Vec<String> = (0..count).map(|number| format!("{field}:{number}")).collect();
        for names in names.chunks(CHUNKS_PER_CALL) {
            let (_, values) = self.call(server, name.to_owned(), HashOp::Get { fields: names.to_vec() }).await?;
            for value in values {
                let Value::Bulk(Some(chunk)) = value else { return None };
                amounts.extend(messages::decode(&chunk)?);
            }
        }
        Some(amounts)
    }
}

/// Balances are stored with this offset, because amounts are not negative.
const BALANCE_OFFSET: i32 = 1_000;

/// Awaits several futures at once.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        for (future, output) in &mut pending {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(cx)
            {
                *output = Some(ready);
            }
        }
        if pending.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    pending.into_iter().filter_map(|(_, output)| output).collect()
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

fn count(value: &Value) -> Option<usize> {
    match value {
        Value::Bulk(Some(bytes)) => str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

fn parse_agreed(agreed: &[u8], previous: &[u8]) -> Option<Agreed> {
    let (since_ms, division) = str::from_utf8(agreed).ok()?.split_once(' ')?;
    let previous = Division::parse(str::from_utf8(previous).ok()?);
    Some(Agreed { division: Division::parse(division)?, previous, since_ms: since_ms.parse().ok()? })
}
