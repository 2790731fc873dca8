//! The ledger of a simulation: charges made, acknowledged, delivered and refunded, and the invariants between them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{Charged, Decision};

use crate::call::{Call, ScriptOp, SlotCharge};
use crate::sim::shard::Effect;
use crate::transport::Executed;

/// The identity of charges that cannot be distinguished: of one instance, to one key, at one time.
type GroupId = (usize, Arc<[u8]>, [u64; 4]);

/// The charges of one identity.
#[derive(Debug, Default)]
struct ChargeGroup {
    /// The number made on the server.
    made: u32,
    /// Of these, the number whose reply arrived, in time or late.
    acknowledged: u32,
    /// Of these, the number delivered to a caller.
    delivered: u32,
    /// Of these, the number refunded by the caller.
    refunded: u32,
    /// How many refunds were sent, and how many were certainly not executed.
    refunds_sent: u32,
    refunds_refused: u32,
    /// The decisions of the server for charges that are not delivered yet.
    decisions: Vec<Decision>,
    /// The end of the lease.
    until: u64,
    /// Whether the instance got a reply that the lease is lost.
    lost_acknowledged: bool,
}

/// An event that frees capacity of a key.
#[derive(Clone, Copy, Debug)]
struct FreedCapacity {
    /// The instance that caused it; `None` if a server lost data.
    by: Option<usize>,
    at: Instant,
    is_acknowledged: bool,
}

#[derive(Default)]
pub(in crate::sim) struct Ledger {
    groups: HashMap<GroupId, ChargeGroup>,
    /// The charges of calls, kept alive so that no two have the same address.
    sent: HashMap<usize, Arc<[SlotCharge]>>,
    freed: BTreeMap<Arc<[u8]>, Vec<FreedCapacity>>,
    /// Charges that passed while the servers failed, and those charged later, by instance and key.
    fallback_usage: HashMap<(usize, Arc<[u8]>), u64>,
    forced: HashMap<(usize, Arc<[u8]>), u64>,
    /// The time at which a debt was last charged to a key.
    last_forced: HashMap<Arc<[u8]>, Instant>,
    /// The first violation.
    violation: Option<String>,
    pub(in crate::sim) resends: u32,
}

fn group_id(instance: usize, key: &Arc<[u8]>, charged: &Charged) -> GroupId {
    (instance, key.clone(), [charged.at, charged.cost, charged.mark, u64::from(charged.part)])
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

impl Ledger {
    pub(in crate::sim) fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(in crate::sim) fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    /// Records that an instance sends a call.
    pub(in crate::sim) fn record_call(&mut self, instance: usize, call: &Call) {
        for op in &call.ops {
            match op {
                ScriptOp::Decide { charges, .. } => {
                    let Some(charge) = charges.first() else { continue };
                    let key = &charge.target.key;
                    if self.sent.insert(charges.as_ptr() as usize, charges.clone()).is_some() {
                        self.violate(format!("a decision of {} was sent twice", text(key)));
                    }
                }
                ScriptOp::Refund { target, charged, .. } => {
                    let name = group_id(instance, &target.key, charged);
                    let group = self.groups.entry(name).or_default();
                    group.refunds_sent += 1;
                    let in_flight = group.refunds_sent - group.refunds_refused;
                    if in_flight > group.acknowledged - group.delivered + group.refunded {
                        let what =
                            format!("{instance} refunds a charge to {} that it must not: {group:?}", text(&target.key));
                        self.violate(what);
                    }
                }
                ScriptOp::Force { target, cost } => {
                    let owner = (instance, target.key.clone());
                    let forced = self.forced.entry(owner.clone()).or_default();
                    *forced += cost;
                    let (forced, max) = (*forced, self.fallback_usage.get(&owner).copied().unwrap_or(0));
                    if forced > max {
                        self.violate(format!("{instance} owes {max} to {} and pays {forced}", text(&target.key)));
                    }
                }
                ScriptOp::Credit { .. }
                | ScriptOp::Settle { .. }
                | ScriptOp::Renew { .. }
                | ScriptOp::Reset { .. }
                | ScriptOp::Lease(_)
                | ScriptOp::Refill { .. } => {}
            }
        }
    }

    /// Records a failed call of an instance.
    pub(in crate::sim) fn record_failed_call(&mut self, instance: usize, call: &Call, executed: Executed) {
        if executed == Executed::Unknown {
            return;
        }
        for op in &call.ops {
            match op {
                ScriptOp::Refund { target, charged, .. } => {
                    self.groups.entry(group_id(instance, &target.key, charged)).or_default().refunds_refused += 1;
                }
                ScriptOp::Force { target, cost } => {
                    *self.forced.entry((instance, target.key.clone())).or_default() -= cost;
                }
                _ => {}
            }
        }
    }

    /// Records that a server executed a call.
    pub(in crate::sim) fn record_execution(&mut self, instance: usize, effects: &[Effect]) {
        let by = Some(instance);
        for effect in effects {
            match effect {
                Effect::Charged { key, charged, decision, until } => {
                    let group = self.groups.entry(group_id(instance, key, charged)).or_default();
                    group.made += 1;
                    group.decisions.push(*decision);
                    group.until = *until;
                }
                Effect::Freed { key } => self.record_freed(key, by),
                Effect::Renewed { key, charged, held: true, until } => {
                    self.groups.entry(group_id(instance, key, charged)).or_default().until = *until;
                }
                Effect::Renewed { held: false, .. } => {}
                Effect::Forced { key } => drop(self.last_forced.insert(key.clone(), Instant::now())),
            }
        }
    }

    /// Records that the reply to a call reached its instance.
    pub(in crate::sim) fn record_acknowledgement(&mut self, instance: usize, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Charged { key, charged, .. } => {
                    self.groups.entry(group_id(instance, key, charged)).or_default().acknowledged += 1;
                }
                Effect::Freed { key } => {
                    let own = |entry: &&mut FreedCapacity| entry.by == Some(instance) && !entry.is_acknowledged;
                    let all = self.freed.entry(key.clone()).or_default();
                    if let Some(entry) = all.iter_mut().find(own) {
                        entry.is_acknowledged = true;
                    }
                }
                Effect::Forced { .. } => {}
                Effect::Renewed { key, charged, held, .. } => {
                    self.groups.entry(group_id(instance, key, charged)).or_default().lost_acknowledged |= !held;
                }
            }
        }
    }

    pub(in crate::sim) fn record_freed(&mut self, key: &Arc<[u8]>, by: Option<usize>) {
        let entry = FreedCapacity { by, at: Instant::now(), is_acknowledged: false };
        self.freed.entry(key.clone()).or_default().push(entry);
    }

    /// Records a loss of data, which may concern any key.
    pub(in crate::sim) fn server_lost_data(&mut self) {
        let keys: Vec<Arc<[u8]>> = self.freed.keys().cloned().collect();
        keys.iter().for_each(|key| self.record_freed(key, None));
    }

    /// Adds a key, so that losses of data are recorded for it.
    pub(in crate::sim) fn track_key(&mut self, key: &Arc<[u8]>) {
        self.freed.entry(key.clone()).or_default();
    }

    /// Returns whether a refusal cached by an instance may be outdated.
    pub(in crate::sim) fn may_be_stale(&self, instance: usize, key: &[u8], within: Duration) -> bool {
        let recent = |entry: &&FreedCapacity| entry.at.elapsed() <= within;
        let unacknowledged = |entry: &FreedCapacity| entry.by != Some(instance) || !entry.is_acknowledged;
        let is_forced = self.last_forced.get(key).is_some_and(|at| at.elapsed() <= within);
        is_forced || self.freed.get(key).is_some_and(|all| all.iter().filter(recent).any(unacknowledged))
    }

    pub(in crate::sim) fn was_freed(&self, key: &[u8]) -> bool {
        self.freed.get(key).is_some_and(|all| !all.is_empty())
    }

    pub(in crate::sim) fn lost_data(&self, key: &[u8]) -> bool {
        self.freed.get(key).is_some_and(|all| all.iter().any(|entry| entry.by.is_none()))
    }

    /// Records that a charge was delivered to a caller.
    pub(in crate::sim) fn record_delivery(
        &mut self,
        instance: usize,
        key: &Arc<[u8]>,
        charged: &Charged,
        decision: &Decision,
    ) {
        let group = self.groups.entry(group_id(instance, key, charged)).or_default();
        group.delivered += 1;
        let known = group.decisions.iter().position(|answer| answer == decision);
        let refunding = group.refunds_sent - group.refunds_refused;
        if group.delivered + refunding > group.acknowledged + group.refunded {
            let what = format!("{instance} got a charge to {} that does not exist: {group:?}", text(key));
            self.violate(what);
        } else if let Some(at) = known {
            group.decisions.swap_remove(at);
        } else {
            let what = format!("{} decided {:?}, {instance} got {decision:?}", text(key), group.decisions);
            self.violate(what);
        }
    }

    pub(in crate::sim) fn record_refund(&mut self, instance: usize, key: &Arc<[u8]>, charged: &Charged) {
        self.groups.entry(group_id(instance, key, charged)).or_default().refunded += 1;
    }

    /// Returns whether a lease is active at `now`, and whether its instance got a reply that it is lost.
    pub(in crate::sim) fn lease(&self, instance: usize, key: &Arc<[u8]>, charged: &Charged, now: u64) -> (bool, bool) {
        let group = self.groups.get(&group_id(instance, key, charged));
        group.map_or((false, false), |group| (group.until > now, group.lost_acknowledged))
    }

    pub(in crate::sim) fn record_fallback_usage(&mut self, instance: usize, key: &Arc<[u8]>, cost: u64) {
        *self.fallback_usage.entry((instance, key.clone())).or_default() += cost;
    }

    /// At the end: the stores must report at least as many uncertain charges as there are charges without a reply.
    pub(in crate::sim) fn check_uncertain(&mut self, uncertain: u64) {
        let unacknowledged: u64 = self.groups.values().map(|group| u64::from(group.made - group.acknowledged)).sum();
        if unacknowledged > uncertain {
            self.violate(format!("{unacknowledged} charges without an answer, and {uncertain} reported as uncertain"));
        }
    }

    /// At the end: every charge without an owner must be refunded, unless its refunds failed.
    pub(in crate::sim) fn check_refunds(&mut self) {
        let mut found = None;
        for ((instance, key, _), group) in &self.groups {
            let owed = group.acknowledged - group.delivered + group.refunded;
            let abandoned = group.refunds_refused / (self.resends + 1);
            if group.refunds_sent - group.refunds_refused + abandoned < owed {
                found = Some(format!("{instance} keeps a charge to {} without an owner: {group:?}", text(key)));
            }
        }
        if let Some(what) = found {
            self.violate(what);
        }
    }
}
