//! The report of this region for the next epoch: what its instances were asked for.

use std::collections::HashMap;

use tokio::time::Instant;

use super::{EpochProgress, RegionSync, accepted_ms};
use crate::regions::demand::{MAX_KEYS, needed_millionths};
use crate::regions::exchange::{ExchangeServer, HashOp, fields};
use crate::regions::lock;
use crate::regions::messages::{self, ScopedKey};
use crate::regions::report::{ReportHeader, listed};
use crate::resp_value::Value;

impl RegionSync {
    fn next_start_ms(&self) -> u64 {
        self.epoch.start_ms + self.epoch.length_ms
    }

    /// Stores in the region what was asked of this instance.
    pub(super) async fn send_demand(&mut self) -> bool {
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
    pub(super) async fn report(&mut self) {
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
}
