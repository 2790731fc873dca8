//! Decides requests under limits that regions divide.

use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::Instant;
use tollgate_core::{ChargeVerdict, Decision, RegionShare};
use tollgate_store::{Charge, Limit, Outcome, Source};

use crate::call::{Answer, Call, ScriptOp, ScriptOps, Target};
use crate::regions::{RegionalLimit, write_scoped};
use crate::store::Inner;
use crate::store::batch::Charges;
use crate::store::decide::DecideFuture;
use crate::store::limit::{self, RedisLimitData};
use crate::transport::{Done, Slot};

/// The bytes of a key in reports of regions.
type RegionalKey = SmallVec<[u8; 128]>;

impl Inner {
    pub(super) fn is_regional(&self, charges: &Charges<'_>) -> bool {
        self.regions.is_some() && charges.iter().any(|charge| RedisLimitData::of(charge.limit).regional.is_some())
    }

    /// Decides a request of which some limits are divided: by the limits that this region enforces at present.
    pub(super) async fn decide_regional<'a>(self: &'a Arc<Self>, charges: &'a Charges<'a>) -> Outcome {
        let now = Instant::now();
        let limits: SmallVec<[Limit; 4]> = charges
            .iter()
            .map(|charge| present_limit(charge.limit, now).unwrap_or_else(|| charge.limit.clone()))
            .collect();
        let own = |(charge, limit): (&Charge<'a>, _)| Charge { limit, ..*charge };
        let own: SmallVec<[Charge<'_>; 4]> = charges.iter().zip(&limits).map(own).collect();
        for charge in &own {
            if let Some(regional) = &RedisLimitData::of(charge.limit).regional {
                regional.regions.count(&regional_key(regional, &key_of(charge)), charge.cost, &regional.whole);
            }
        }
        let mut outcome = DecideFuture::in_region(self, &own).await;
        if outcome.source == Source::Exact {
            outcome.source = Source::Regional;
        }
        for (charge, decision) in own.iter().zip(&mut outcome.decisions) {
            if let Some(regional) = &RedisLimitData::of(charge.limit).regional {
                let key = regional_key(regional, &key_of(charge));
                *decision = at_rate(*decision, regional.regions.rate_at(&key, now));
            }
        }
        outcome
    }

    /// Returns whether a request cannot be decided, because this region may enforce no share of a limit.
    pub(super) fn has_no_share(&self, targets: impl IntoIterator<Item = Limit>) -> bool {
        let now = Instant::now();
        let has_none = |limit: Limit| {
            let regional = RedisLimitData::of(&limit).regional.as_ref();
            regional.is_some_and(|regional| regional.regions.share(now).is_none())
        };
        self.regions.is_some() && targets.into_iter().any(has_none)
    }

    /// Sends a call. Keys that regions divide are refilled before its operations.
    pub(super) fn transmit(&self, slot: Slot, mut call: Call, deadline: Instant, done: Done) {
        let refills = if self.regions.is_some() { refills(&call.ops) } else { ScriptOps::new() };
        if refills.is_empty() {
            return self.transport.send(slot, call, deadline, done);
        }
        call.ops.insert_many(0, refills);
        let done = Done::new(move |answered| {
            done.complete(answered.map(|mut reply| {
                reply.answers.retain(|answer| !matches!(answer, Answer::Refilled));
                reply
            }));
        });
        self.transport.send(slot, call, deadline, done);
    }
}

/// Returns the limit that a region enforces at present; `None` if it is not divided, or if it has no share.
fn present_limit(limit: &Limit, now: Instant) -> Option<Limit> {
    let data = RedisLimitData::of(limit);
    let share = data.regional.as_ref()?.regions.share(now)?;
    data.limit_for(limit, share)
}

impl RedisLimitData {
    /// Returns the limit that a region with this share enforces; `None` if that would be no token at all.
    fn limit_for(&self, limit: &Limit, share: RegionShare) -> Option<Limit> {
        let regional = self.regional.as_ref()?;
        let quota = share.quota(&regional.whole).ok()?;
        if quota == *limit.quota() {
            return Some(limit.clone());
        }
        let mut other_limits = self.other_shares.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = other_limits.iter().find(|known| *known.quota() == quota) {
            return Some(known.clone());
        }
        let data = RedisLimitData {
            prefix_and_scope: self.prefix_and_scope.clone(),
            origin: self.origin,
            fallback: self.fallback.clone(),
            lease: None,
            regional: Some(Arc::clone(regional)),
            other_shares: std::sync::Mutex::default(),
        };
        let other = limit::prepare(limit.scope(), quota, limit.options(), data).ok()?;
        // Shares change with the weights, which is rare.
        other_limits.truncate(3);
        other_limits.push(other.clone());
        Some(other)
    }
}

fn key_of(charge: &Charge<'_>) -> Arc<[u8]> {
    super::key_names::RedisKeyName::new(&RedisLimitData::of(charge.limit).prefix_and_scope, charge.key).bytes
}

/// Returns the name of a key in reports of regions: the same in all regions, whatever their prefixes.
fn regional_key(regional: &RegionalLimit, name: &[u8]) -> RegionalKey {
    let mut bytes = RegionalKey::new();
    write_scoped(&mut bytes, &regional.scope, name.get(regional.name_prefix_len..).unwrap_or_default());
    bytes
}

/// Returns the refills of all divided keys of some operations.
fn refills(ops: &[ScriptOp]) -> ScriptOps {
    let now = Instant::now();
    let mut targets: SmallVec<[&Target; 4]> = SmallVec::new();
    for op in ops {
        match op {
            ScriptOp::Decide { charges, .. } => targets.extend(charges.iter().map(|charge| &charge.target)),
            ScriptOp::Force { target, .. }
            | ScriptOp::Refund { target, .. }
            | ScriptOp::Credit { target, .. }
            | ScriptOp::Settle { target, .. } => targets.push(target),
            ScriptOp::Renew { .. } | ScriptOp::Reset { .. } | ScriptOp::Lease(_) | ScriptOp::Refill { .. } => {}
        }
    }
    let mut refills = ScriptOps::new();
    for (index, target) in targets.iter().enumerate() {
        let Some(regional) = &RedisLimitData::of(&target.limit).regional else { continue };
        if targets[..index].iter().any(|earlier| earlier.key == target.key) {
            continue;
        }
        let schedule = regional.regions.schedule(&regional_key(regional, &target.key), now);
        refills.push(ScriptOp::Refill { target: (*target).clone(), schedule: Box::new(schedule) });
    }
    refills
}

/// Converts the times of a decision, which are those at the whole rate of its limit, to those at the rate of its key.
pub(crate) fn at_rate(decision: Decision, rate: u32) -> Decision {
    let scaled = |time: u64| {
        let time = u128::from(time) * u128::from(RegionShare::WHOLE);
        u64::try_from(time.div_ceil(u128::from(rate.max(1)))).unwrap_or(u64::MAX)
    };
    let verdict = match decision.verdict {
        ChargeVerdict::Refused { retry_after } => ChargeVerdict::Refused { retry_after: retry_after.map(scaled) },
        verdict => verdict,
    };
    Decision { verdict, next_after: scaled(decision.next_after), reset_after: scaled(decision.reset_after), ..decision }
}

#[cfg(test)]
impl crate::store::RedisStore {
    /// Returns the rate at which a key is refilled now, in thousandths.
    pub(crate) fn refill_rate(&self, limit: &Limit, key: &[u8]) -> u32 {
        let now = Instant::now();
        let charge = Charge::new(limit, key, 1);
        let Some(regional) = &RedisLimitData::of(limit).regional else { return 0 };
        regional.regions.schedule(&regional_key(regional, &key_of(&charge)), now).rate_at(now)
    }
}
