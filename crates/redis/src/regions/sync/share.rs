//! The share of this region: what the regions have agreed on, and the vote of this one.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::RegionShare;

use super::{OF_REGION, RegionSync};
use crate::regions::MissingShare;
use crate::regions::division::{Agreed, Agreement, Division};
use crate::regions::exchange::{ExchangeServer, HashOp};
use crate::resp_value::Value;

impl RegionSync {
    /// Reads what the regions have agreed on, as stored in this region, and applies it. Returns whether that succeeded.
    pub(super) async fn read_share(&mut self) -> bool {
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

    pub(super) fn share(&self) -> Option<RegionShare> {
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
    pub(super) async fn sync_global(&mut self) -> bool {
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
}

fn parse_agreed(agreed: &[u8], previous: &[u8]) -> Option<Agreed> {
    let (since_ms, division) = str::from_utf8(agreed).ok()?.split_once(' ')?;
    let previous = Division::parse(str::from_utf8(previous).ok()?);
    Some(Agreed { division: Division::parse(division)?, previous, since_ms: since_ms.parse().ok()? })
}
