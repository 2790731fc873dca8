//! The rates that this region enforces in an epoch, from the reports of all regions.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use tollgate_core::RegionShare;

use super::chunks::count;
use super::{EpochProgress, RegionSync, accepted_ms};
use crate::regions::exchange::{ExchangeServer, HashOp, fields};
use crate::regions::messages::ScopedKey;
use crate::regions::rates::{EpochRates, KeyRates};
use crate::regions::report::{RegionReport, ReportHeader, balances, kept_rates};
use crate::resp_value::Value;

/// Balances are stored with this offset, because amounts are not negative.
const BALANCE_OFFSET: i32 = 1_000;

/// The times of an epoch by the clock of this instance, in microseconds since the base.
struct EpochTimes {
    /// It has begun at the latest.
    from_us: i64,
    /// It ends at the earliest, and at the latest.
    until_us: i64,
    next_from_us: i64,
}

impl RegionSync {
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
    pub(super) fn publish_kept(&mut self, needs: &KeyRates) {
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
    pub(super) async fn read_own_report(&mut self) {
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
    pub(super) async fn read_rates(&mut self) {
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
}

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
