//! Who charged what, who was told, who gave it back: the books of a simulated
//! world, and what must never be found in them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::{Charged, Decision};

use crate::call::{Call, Line, SlotCharge};
use crate::sim::shard::Deed;
use crate::transport::Executed;

/// Charges that cannot be told apart: of one instance, to one key, at one time.
type ClassName = (usize, Arc<[u8]>, [u64; 4]);

/// What happened to the charges of a class.
#[derive(Debug, Default)]
struct Class {
    /// Made on the server.
    made: u32,
    /// Of these, whose answer came back, early or late.
    told: u32,
    /// Of these, which a caller was told it has.
    claimed: u32,
    /// Of these, which the caller gave back.
    returned: u32,
    /// How often giving one back was sent, and how often it certainly did not arrive.
    refunds_sent: u32,
    refunds_refused: u32,
    /// What the server answered, for each that nobody has claimed.
    decisions: Vec<Decision>,
    /// When a lease ends.
    until: u64,
    /// Somebody was told that the lease is lost.
    told_lost: bool,
}

/// Something that can turn a refusal into an admission.
#[derive(Clone, Copy, Debug)]
struct Loosening {
    /// Whose doing; `None` if a server lost something.
    by: Option<usize>,
    at: Instant,
    is_told: bool,
}

#[derive(Default)]
pub(in crate::sim) struct Books {
    classes: HashMap<ClassName, Class>,
    /// Charges of calls, kept so that no two have the same address.
    sent: HashMap<usize, Arc<[SlotCharge]>>,
    loosenings: BTreeMap<Arc<[u8]>, Vec<Loosening>>,
    /// Passed while the store failed, and charged later, by instance and key.
    uncounted: HashMap<(usize, Arc<[u8]>), u64>,
    forced: HashMap<(usize, Arc<[u8]>), u64>,
    /// When what had passed uncounted was last charged to a key.
    last_forced: HashMap<Arc<[u8]>, Instant>,
    /// The first thing that went wrong.
    violation: Option<String>,
    pub(in crate::sim) resends: u32,
}

fn class_name(instance: usize, key: &Arc<[u8]>, charged: &Charged) -> ClassName {
    (instance, key.clone(), [charged.at, charged.cost, charged.mark, u64::from(charged.part)])
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

impl Books {
    pub(in crate::sim) fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(in crate::sim) fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    /// An instance sends a call.
    pub(in crate::sim) fn sent(&mut self, instance: usize, call: &Call) {
        for line in &call.lines {
            match line {
                Line::Decide { charges, .. } => {
                    let Some(charge) = charges.first() else { continue };
                    let key = &charge.target.key;
                    if self.sent.insert(charges.as_ptr() as usize, charges.clone()).is_some() {
                        self.violate(format!("a decision of {} was sent twice", text(key)));
                    }
                }
                Line::GiveBack { target, charged, .. } => {
                    let name = class_name(instance, &target.key, charged);
                    let class = self.classes.entry(name).or_default();
                    class.refunds_sent += 1;
                    let under_way = class.refunds_sent - class.refunds_refused;
                    if under_way > class.told - class.claimed + class.returned {
                        let what =
                            format!("{instance} gives back to {} what it must not: {class:?}", text(&target.key));
                        self.violate(what);
                    }
                }
                Line::Force { target, cost } => {
                    let owner = (instance, target.key.clone());
                    let forced = self.forced.entry(owner.clone()).or_default();
                    *forced += cost;
                    let (forced, most) = (*forced, self.uncounted.get(&owner).copied().unwrap_or(0));
                    if forced > most {
                        self.violate(format!("{instance} owes {most} to {} and pays {forced}", text(&target.key)));
                    }
                }
                Line::Credit { .. } | Line::Settle { .. } | Line::Renew { .. } | Line::Reset { .. } => {}
            }
        }
    }

    /// A call of an instance failed.
    pub(in crate::sim) fn failed(&mut self, instance: usize, call: &Call, executed: Executed) {
        if executed == Executed::Unknown {
            return;
        }
        for line in &call.lines {
            match line {
                Line::GiveBack { target, charged, .. } => {
                    self.classes.entry(class_name(instance, &target.key, charged)).or_default().refunds_refused += 1;
                }
                Line::Force { target, cost } => {
                    *self.forced.entry((instance, target.key.clone())).or_default() -= cost;
                }
                _ => {}
            }
        }
    }

    /// A server carried out a call.
    pub(in crate::sim) fn executed(&mut self, instance: usize, deeds: &[Deed]) {
        let by = Some(instance);
        for deed in deeds {
            match deed {
                Deed::Charged { key, charged, decision, until } => {
                    let class = self.classes.entry(class_name(instance, key, charged)).or_default();
                    class.made += 1;
                    class.decisions.push(*decision);
                    class.until = *until;
                }
                Deed::Loosened { key } => self.loosened(key, by),
                Deed::Renewed { key, charged, held: true, until } => {
                    self.classes.entry(class_name(instance, key, charged)).or_default().until = *until;
                }
                Deed::Renewed { held: false, .. } => {}
                Deed::Forced { key } => drop(self.last_forced.insert(key.clone(), Instant::now())),
            }
        }
    }

    /// The answer to a call reached its instance.
    pub(in crate::sim) fn told(&mut self, instance: usize, deeds: &[Deed]) {
        for deed in deeds {
            match deed {
                Deed::Charged { key, charged, .. } => {
                    self.classes.entry(class_name(instance, key, charged)).or_default().told += 1;
                }
                Deed::Loosened { key } => {
                    let own = |loosening: &&mut Loosening| loosening.by == Some(instance) && !loosening.is_told;
                    let all = self.loosenings.entry(key.clone()).or_default();
                    if let Some(loosening) = all.iter_mut().find(own) {
                        loosening.is_told = true;
                    }
                }
                Deed::Forced { .. } => {}
                Deed::Renewed { key, charged, held, .. } => {
                    self.classes.entry(class_name(instance, key, charged)).or_default().told_lost |= !held;
                }
            }
        }
    }

    pub(in crate::sim) fn loosened(&mut self, key: &Arc<[u8]>, by: Option<usize>) {
        let loosening = Loosening { by, at: Instant::now(), is_told: false };
        self.loosenings.entry(key.clone()).or_default().push(loosening);
    }

    /// A server forgot something, nobody knows about which keys.
    pub(in crate::sim) fn lost(&mut self) {
        let keys: Vec<Arc<[u8]>> = self.loosenings.keys().cloned().collect();
        keys.iter().for_each(|key| self.loosened(key, None));
    }

    /// Makes a key known, so that its losses are noted.
    pub(in crate::sim) fn know(&mut self, key: &Arc<[u8]>) {
        self.loosenings.entry(key.clone()).or_default();
    }

    /// Whether a refusal that an instance remembers may be wrong by now.
    pub(in crate::sim) fn may_be_stale(&self, instance: usize, key: &[u8], within: Duration) -> bool {
        let recent = |loosening: &&Loosening| loosening.at.elapsed() <= within;
        let unheard = |loosening: &Loosening| loosening.by != Some(instance) || !loosening.is_told;
        let is_forced = self.last_forced.get(key).is_some_and(|at| at.elapsed() <= within);
        is_forced || self.loosenings.get(key).is_some_and(|all| all.iter().filter(recent).any(unheard))
    }

    pub(in crate::sim) fn is_loosened(&self, key: &[u8]) -> bool {
        self.loosenings.get(key).is_some_and(|all| !all.is_empty())
    }

    pub(in crate::sim) fn lost_something(&self, key: &[u8]) -> bool {
        self.loosenings.get(key).is_some_and(|all| all.iter().any(|loosening| loosening.by.is_none()))
    }

    /// A caller was told that it has a charge.
    pub(in crate::sim) fn claimed(&mut self, instance: usize, key: &Arc<[u8]>, charged: &Charged, decision: &Decision) {
        let class = self.classes.entry(class_name(instance, key, charged)).or_default();
        class.claimed += 1;
        let known = class.decisions.iter().position(|answer| answer == decision);
        let given_back = class.refunds_sent - class.refunds_refused;
        if class.claimed + given_back > class.told + class.returned {
            let what = format!("{instance} was told of a charge to {} that there is not: {class:?}", text(key));
            self.violate(what);
        } else if let Some(at) = known {
            class.decisions.swap_remove(at);
        } else {
            let what = format!("{} answered {:?}, {instance} heard {decision:?}", text(key), class.decisions);
            self.violate(what);
        }
    }

    pub(in crate::sim) fn returned(&mut self, instance: usize, key: &Arc<[u8]>, charged: &Charged) {
        self.classes.entry(class_name(instance, key, charged)).or_default().returned += 1;
    }

    /// Whether a lease is in force at `now`, and whether its holder was told that it is not.
    pub(in crate::sim) fn lease(&self, instance: usize, key: &Arc<[u8]>, charged: &Charged, now: u64) -> (bool, bool) {
        let class = self.classes.get(&class_name(instance, key, charged));
        class.map_or((false, false), |class| (class.until > now, class.told_lost))
    }

    pub(in crate::sim) fn passed_uncounted(&mut self, instance: usize, key: &Arc<[u8]>, cost: u64) {
        *self.uncounted.entry((instance, key.clone())).or_default() += cost;
    }

    /// At the end: no more charges lack an answer than the stores report as uncertain.
    pub(in crate::sim) fn check_uncertain(&mut self, uncertain: u64) {
        let untold: u64 = self.classes.values().map(|class| u64::from(class.made - class.told)).sum();
        if untold > uncertain {
            self.violate(format!("{untold} charges without an answer, and {uncertain} reported as uncertain"));
        }
    }

    /// All is quiet: nothing that was charged for nobody is left, as far as messages arrived.
    pub(in crate::sim) fn close(&mut self) {
        let mut found = None;
        for ((instance, key, _), class) in &self.classes {
            let owed = class.told - class.claimed + class.returned;
            let given_up = class.refunds_refused / (self.resends + 1);
            if class.refunds_sent - class.refunds_refused + given_up < owed {
                found = Some(format!("{instance} keeps a charge to {} that nobody has: {class:?}", text(key)));
            }
        }
        if let Some(what) = found {
            self.violate(what);
        }
    }
}
