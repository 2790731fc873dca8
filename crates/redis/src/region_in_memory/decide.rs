//! Decides charges under divided limits, together with those of the memory store.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tokio::time::Instant;
use tollgate_core::{Algorithm, Bucket, ChargeVerdict, Decision, RegionShare};
use tollgate_store::{Charge, ChargeMode, ChargeReceipt, DecidedCharges, OnFailure, Outcome, Source, shadow_groups};

use super::key_table::{KeyName, LockedKeys, NoEntry, RefilledKey};
use super::limit::DividedLimit;
use super::receipt::DividedReceipt;
use super::{BASE_NS, Inner};
use crate::store::at_rate;

/// A charge under a divided limit.
struct DividedCharge<'a> {
    /// Its position in the request.
    position: usize,
    charge: &'a Charge<'a>,
    bucket: Arc<Bucket>,
    /// The position of its key among the keys of the request.
    key: usize,
    /// The rate of the key, for the times in the answer.
    rate: u32,
}

/// A key of a request, as it was and as the request leaves it.
struct RequestKey {
    name: KeyName,
    /// Whether it has an entry.
    is_known: bool,
    before: RefilledKey,
    after: RefilledKey,
    /// The least rate at which it will be refilled.
    least: u32,
}

type Decisions = SmallVec<[Decision; 4]>;

/// The charges of a request under divided limits, and the names of their keys, in the table and in reports.
struct DividedCharges<'a> {
    charges: SmallVec<[DividedCharge<'a>; 4]>,
    names: SmallVec<[(KeyName, Vec<u8>); 4]>,
}

impl Inner {
    /// Decides charges together, all or none.
    pub(super) fn decide(&self, charges: &[Charge<'_>]) -> Outcome {
        if charges.iter().all(|charge| DividedLimit::of(charge.limit).is_none()) {
            return self.memory.check_all_now(charges);
        }
        let now = Instant::now();
        match self.regions.share(now).and_then(|share| self.divided(charges, share, now)) {
            Some(divided) => self.decide_by_share(charges, divided, now),
            None => self.fall_back(charges),
        }
    }

    /// Returns the charges under divided limits; `None` if a limit has no token with this share.
    fn divided<'a>(&self, charges: &'a [Charge<'a>], share: RegionShare, now: Instant) -> Option<DividedCharges<'a>> {
        let mut names: SmallVec<[(KeyName, Vec<u8>); 4]> = SmallVec::new();
        let mut divided = SmallVec::new();
        for (position, charge) in charges.iter().enumerate() {
            let Some(limit) = DividedLimit::of(charge.limit) else { continue };
            let name = limit.key_name(charge.key);
            let key = names.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                names.push((Arc::clone(&name), limit.report_name(&name)));
                names.len() - 1
            });
            let rate = self.regions.rate_at(&names[key].1, now);
            divided.push(DividedCharge { position, charge, bucket: limit.bucket(share)?, key, rate });
        }
        for DividedCharge { charge, key, .. } in &divided {
            if let Some(limit) = DividedLimit::of(charge.limit) {
                self.regions.count(&names[*key].1, charge.cost, &limit.whole);
            }
        }
        Some(DividedCharges { charges: divided, names })
    }

    fn decide_by_share(
        &self,
        charges: &[Charge<'_>],
        DividedCharges { charges: divided, names }: DividedCharges<'_>,
        now: Instant,
    ) -> Outcome {
        let now_ns = self.time_ns(now);
        let mut locked = self.keys.lock(names.iter().map(|(name, _)| name));
        let mut keys: SmallVec<[RequestKey; 4]> = SmallVec::new();
        for (index, (name, report_name)) in names.into_iter().enumerate() {
            let schedule = self.regions.schedule(&report_name, now);
            let bucket = divided.iter().find(|charge| charge.key == index).map(|charge| &charge.bucket);
            let known = locked.read(&name, &schedule, BASE_NS, now_ns);
            let is_known = known.is_some();
            let Some(before) = known.or_else(|| Some(RefilledKey::unused(bucket?, now_ns))) else { continue };
            keys.push(RequestKey { name, is_known, after: before.clone(), before, least: schedule.least });
        }
        let mut decisions: Decisions = smallvec![Decision::UNDECIDED; charges.len()];
        let mut receipts = Vec::new();
        let fits = make_enforced(&divided, &mut keys, now_ns, &mut decisions, &mut receipts);
        let is_full = fits && write(&mut locked, &keys).is_err();
        let is_written = fits && !is_full;
        let passed = self.decide_others(charges, is_written, &mut decisions, &mut receipts) && is_written;
        if passed {
            make_shadows(&divided, &mut keys, now_ns, &mut decisions, &mut receipts);
            // A shadow charge without an entry is not counted.
            let _ = write(&mut locked, &keys);
        } else {
            keys.iter_mut().for_each(|key| key.is_known |= is_written && key.after != key.before);
            restore(&mut locked, &keys);
            keys.iter_mut().for_each(|key| key.after = key.before.clone());
            receipts.clear();
        }
        drop(locked);
        for divided in &divided {
            let decision = &mut decisions[divided.position];
            if is_full && divided.charge.mode == ChargeMode::Enforce {
                *decision = divided.charge.limit.decision_without_count(ChargeVerdict::Unavailable);
                continue;
            }
            let was_made = passed && *decision != Decision::UNDECIDED;
            let decided = if was_made { *decision } else { divided.peek(&mut keys, now_ns) };
            *decision = at_rate(decided, divided.rate);
        }
        receipts.sort_unstable_by_key(|(position, _)| *position);
        Outcome { passed, decisions, receipts, source: Source::Regional, decided: DecidedCharges::All }
    }

    /// Decides the charges under limits that are not divided. If the request is refused already, none is made. Returns
    /// whether they pass.
    fn decide_others(
        &self,
        charges: &[Charge<'_>],
        may_charge: bool,
        decisions: &mut Decisions,
        receipts: &mut Vec<(usize, ChargeReceipt)>,
    ) -> bool {
        let others: SmallVec<[(usize, Charge<'_>); 4]> = charges
            .iter()
            .enumerate()
            .filter(|(_, charge)| DividedLimit::of(charge.limit).is_none())
            .map(|(position, charge)| (position, if may_charge { *charge } else { uncharged(*charge) }))
            .collect();
        if others.is_empty() {
            return true;
        }
        let of_memory: SmallVec<[Charge<'_>; 4]> = others.iter().map(|(_, charge)| *charge).collect();
        let outcome = self.memory.check_all_now(&of_memory);
        for ((position, _), decision) in others.iter().zip(outcome.decisions) {
            decisions[*position] = decision;
        }
        receipts.extend(outcome.receipts.into_iter().map(|(index, receipt)| (others[index].0, receipt)));
        outcome.passed
    }

    /// Decides a request while the region has no share: each divided limit by its failure mode.
    fn fall_back(&self, charges: &[Charge<'_>]) -> Outcome {
        let fails_closed = |charge: &Charge<'_>| {
            let options = charge.limit.options();
            charge.cost > 0
                && charge.mode.can_refuse()
                && DividedLimit::of(charge.limit).is_some()
                && options.on_failure == OnFailure::Closed
        };
        let may_charge = !charges.iter().any(fails_closed);
        let mut local: SmallVec<[(usize, Charge<'_>); 4]> = SmallVec::new();
        for (position, charge) in charges.iter().enumerate() {
            let limit = match DividedLimit::of(charge.limit) {
                None => charge.limit,
                Some(DividedLimit { fallback: Some(limit), .. }) => limit,
                Some(_) => continue,
            };
            let charge = Charge { limit, ..*charge };
            local.push((position, if may_charge { charge } else { uncharged(charge) }));
        }
        let of_memory: SmallVec<[Charge<'_>; 4]> = local.iter().map(|(_, charge)| *charge).collect();
        let outcome = self.memory.check_all_now(&of_memory);
        let passed = may_charge && outcome.passed;
        let mut decisions: Decisions = charges
            .iter()
            .map(|charge| {
                let is_open = charge.limit.options().on_failure == OnFailure::Open;
                let verdict = if is_open { ChargeVerdict::Allowed { delay: 0 } } else { ChargeVerdict::Unavailable };
                charge.limit.decision_without_count(verdict)
            })
            .collect();
        for ((position, _), decision) in local.iter().zip(outcome.decisions) {
            decisions[*position] = decision;
        }
        let mut by_memory: Vec<(usize, ChargeReceipt)> =
            outcome.receipts.into_iter().map(|(index, receipt)| (local[index].0, receipt)).collect();
        let mut receipts = Vec::new();
        for (position, charge) in charges.iter().enumerate() {
            let receipt = by_memory.iter().position(|(at, _)| *at == position).map(|at| by_memory.swap_remove(at).1);
            let Some(limit) = DividedLimit::of(charge.limit) else {
                receipts.extend(receipt.map(|receipt| (position, receipt)));
                continue;
            };
            if !(passed && charge.cost > 0 && charge.mode == ChargeMode::Enforce) {
                continue;
            }
            // What is admitted now is used of the share too, once the region has one.
            let name = limit.key_name(charge.key);
            self.update(charge.limit, &name, true, |bucket, state, now| bucket.force(state, now, charge.cost));
            if charge.receipt {
                receipts.push((position, DividedReceipt::of_fallback(charge.limit, &name, charge.cost, receipt)));
            }
        }
        let decided = DecidedCharges::Only(local.iter().map(|(position, _)| *position).collect());
        let decided = if local.len() == charges.len() { DecidedCharges::All } else { decided };
        Outcome { passed, decisions, receipts, source: Source::Fallback, decided }
    }
}

impl DividedCharge<'_> {
    /// Returns the bucket, and the state of its key as that bucket reads it.
    fn state<'k>(&self, keys: &'k mut [RequestKey], now_ns: u64) -> (&Bucket, &'k mut RefilledKey) {
        let key = &mut keys[self.key].after;
        key.convert_to(&self.bucket, now_ns);
        (&self.bucket, key)
    }

    fn fits(&self, keys: &mut [RequestKey], now_ns: u64) -> bool {
        let (bucket, key) = self.state(keys, now_ns);
        bucket.peek(&key.state, now_ns, self.charge.cost).is_allowed()
    }

    /// Returns the decision, with what remains without the charge.
    fn peek(&self, keys: &mut [RequestKey], now_ns: u64) -> Decision {
        let (bucket, key) = self.state(keys, now_ns);
        let decision = bucket.peek(&key.state, now_ns, self.charge.cost);
        if !decision.is_allowed() {
            return decision;
        }
        Decision { verdict: decision.verdict, ..bucket.peek(&key.state, now_ns, 0) }
    }

    /// Makes the charge, if it fits.
    fn make(
        &self,
        keys: &mut [RequestKey],
        now_ns: u64,
        decisions: &mut Decisions,
        receipts: &mut Vec<(usize, ChargeReceipt)>,
    ) -> bool {
        let Charge { limit, cost, receipt, .. } = *self.charge;
        let (bucket, key) = self.state(keys, now_ns);
        let decision = bucket.check(&mut key.state, now_ns, cost);
        let charged = bucket.charged(&key.state, now_ns, cost);
        decisions[self.position] = decision;
        if decision.is_allowed() && receipt && cost > 0 {
            receipts.push((self.position, DividedReceipt::of_share(limit, &keys[self.key].name, charged)));
        }
        decision.is_allowed()
    }
}

/// Makes the enforced charges, if all charges that can refuse the request fit. Returns whether they do.
fn make_enforced(
    divided: &[DividedCharge<'_>],
    keys: &mut [RequestKey],
    now_ns: u64,
    decisions: &mut Decisions,
    receipts: &mut Vec<(usize, ChargeReceipt)>,
) -> bool {
    let mut binding = divided.iter().filter(|divided| divided.charge.mode.can_refuse());
    let mut enforced = divided.iter().filter(|divided| divided.charge.mode == ChargeMode::Enforce);
    // Charges to one key may fit one by one, and not together.
    binding.all(|divided| divided.fits(keys, now_ns))
        && enforced.all(|divided| divided.make(keys, now_ns, decisions, receipts))
}

/// Makes shadow charges, each group as a whole or not at all.
fn make_shadows(
    divided: &[DividedCharge<'_>],
    keys: &mut [RequestKey],
    now_ns: u64,
    decisions: &mut Decisions,
    receipts: &mut Vec<(usize, ChargeReceipt)>,
) {
    for group in shadow_groups(divided.iter().map(|divided| (divided.charge.cost, divided.charge.mode))) {
        if divided[group.clone()].iter().all(|charge| charge.fits(keys, now_ns)) {
            divided[group].iter().for_each(|charge| {
                charge.make(keys, now_ns, decisions, receipts);
            });
        }
    }
}

/// Writes the keys that have changed. If one gets no entry, none is changed.
fn write(locked: &mut LockedKeys<'_>, keys: &[RequestKey]) -> Result<(), NoEntry> {
    for (index, key) in keys.iter().enumerate().filter(|(_, key)| key.after != key.before) {
        if let Err(error) = locked.write(&key.name, key.after.clone(), key.least) {
            for earlier in &keys[..index] {
                let _ = locked.write(&earlier.name, earlier.before.clone(), earlier.least);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Writes keys as they were before the request, refilled until then: what was lent to a key is known for some epochs only.
fn restore(locked: &mut LockedKeys<'_>, keys: &[RequestKey]) {
    for key in keys.iter().filter(|key| key.is_known) {
        // A key that has an entry needs no other.
        let _ = locked.write(&key.name, key.before.clone(), key.least);
    }
}

/// Returns a charge that is decided, and not made.
fn uncharged(charge: Charge<'_>) -> Charge<'_> {
    let mode = match charge.mode {
        ChargeMode::Enforce | ChargeMode::Guard => ChargeMode::Guard,
        ChargeMode::Shadow | ChargeMode::ShadowJoined | ChargeMode::Peek => ChargeMode::Peek,
    };
    Charge { mode, receipt: false, ..charge }
}
