use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tollgate::policy::CompiledRule;

use super::bursts::MIN_BURST_REQUESTS;
use super::frequent_clients::ClientWindows;
use super::tally::ClientTally;
use crate::metrics::sharded_counters::own_slot;
use crate::observe::log::line_budget::{LineKind, LinesUsed};

const S_NS: u64 = 1_000_000_000;

/// The window of refusals and near-limit requests: lists cover the last 30 to 60 seconds.
pub(in crate::observe) const WINDOW_NS: u64 = 30 * S_NS;

/// The window of request counts for burst detection.
pub(in crate::observe) const TRAFFIC_WINDOW_NS: u64 = 10 * S_NS;

/// The sampling rate of request counts.
pub(in crate::observe) const SAMPLED_ONE_IN: u32 = 16;

/// The maximum number of clients per thread and rule.
const MAX_CLIENTS: usize = 128;

/// The minimum, with any number of rules.
const MIN_CLIENTS: usize = 16;

/// The maximum number of clients of a thread over all rules, unless the minimum of each rule needs more.
const MAX_CLIENTS_OF_ALL_RULES: usize = 4_096;

/// Threads beyond this number share shards.
const MAX_SHARDS: usize = 16;

/// How many clients get an ID in a second, per shard. Hashing takes a microsecond, and a flood may have a new client
/// with every request; a client that stays gets its ID a little later.
const NAMES_PER_SECOND: u64 = 500;

/// The clients of all rules. Each thread has its own tables, merged on read; so counting neither waits nor loses
/// anything.
#[derive(Debug)]
pub(in crate::observe) struct ClientShards {
    shards: Box<[ClientShard]>,
}

/// Aligned to its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ClientShard(Mutex<ShardTables>);

#[derive(Debug, Default)]
pub(in crate::observe) struct ShardTables {
    /// Indexed by the position of the rule in the last seen policy.
    rules: Vec<Option<Box<RuleClients>>>,
    names: NameBudget,
    /// From how many requests in a window a client gets an ID, so that every burst has one.
    named_from: u64,
}

/// The IDs assigned in the current second.
#[derive(Debug, Default)]
struct NameBudget {
    now_s: u64,
    assigned: u64,
}

/// The clients of one rule.
#[derive(Debug)]
pub(in crate::observe) struct RuleClients {
    rule: Arc<str>,
    /// Clients that were refused, or would have been by a shadow rule.
    refused: ClientWindows,
    /// Clients that passed near their limit.
    near: ClientWindows,
    /// All clients, sampled.
    traffic: ClientWindows,
    /// Violations without a line.
    left_out: u64,
}

/// The client of a request and the time of the decision.
#[derive(Clone, Copy, Debug)]
pub(in crate::observe) struct ClientSample {
    pub(in crate::observe) fingerprint: u64,
    pub(in crate::observe) now_ns: u64,
}

/// The result of a rule for a request other than a plain pass.
#[derive(Clone, Copy, Debug)]
pub(in crate::observe) struct Observation {
    /// Refused, or would have been.
    pub(in crate::observe) is_refused: bool,
    /// Allowed with at most a tenth of the limit left.
    pub(in crate::observe) is_near: bool,
    /// Refused by a shadow rule.
    pub(in crate::observe) is_shadow: bool,
    /// Deserves a line.
    pub(in crate::observe) is_violation: bool,
}

/// Selects a table of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) enum ClientTable {
    /// Refused clients, in the recent windows.
    Refused,
    Near,
    /// Sampled requests of the last complete window.
    Traffic,
}

impl ClientShards {
    /// Two shards for each processor: a thread that finds its own busy finds another free.
    pub(in crate::observe) fn new() -> ClientShards {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let count = (threads * 2).next_power_of_two().min(MAX_SHARDS);
        // Only bursts are reported. However a burst is spread over the shards, one of them has this much of it.
        let named_from = MIN_BURST_REQUESTS / count as u64;
        let shard = |_| ClientShard(Mutex::new(ShardTables { named_from, ..ShardTables::default() }));
        ClientShards { shards: (0..count).map(shard).collect() }
    }

    /// Merges the tables of a rule.
    pub(in crate::observe) fn tally(&self, rule: &str, which: ClientTable, now_ns: u64) -> ClientTally {
        let mut tally = ClientTally::default();
        self.each(|clients| {
            if &*clients.rule == rule {
                clients.add_to(&mut tally, which, now_ns);
            }
        });
        tally
    }

    /// The same for every rule.
    pub(in crate::observe) fn tallies(&self, which: ClientTable, now_ns: u64) -> HashMap<Arc<str>, ClientTally> {
        let mut tallies: HashMap<Arc<str>, ClientTally> = HashMap::new();
        self.each(|clients| clients.add_to(tallies.entry(Arc::clone(&clients.rule)).or_default(), which, now_ns));
        tallies
    }

    /// Returns and resets the number of violations without a line, by rule.
    pub(in crate::observe) fn take_left_out(&self) -> HashMap<Arc<str>, u64> {
        let mut left_out: HashMap<Arc<str>, u64> = HashMap::new();
        self.each(|clients| {
            let count = std::mem::take(&mut clients.left_out);
            if count > 0 {
                *left_out.entry(Arc::clone(&clients.rule)).or_default() += count;
            }
        });
        left_out
    }

    /// Clears all clients, because their IDs changed.
    pub(in crate::observe) fn clear(&self) {
        self.each(|clients| [&mut clients.refused, &mut clients.near, &mut clients.traffic].map(ClientWindows::clear));
    }

    fn each<R>(&self, mut visit: impl FnMut(&mut RuleClients) -> R) {
        for shard in &self.shards {
            let mut tables = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            tables.rules.iter_mut().flatten().for_each(|clients| drop(visit(clients)));
        }
    }

    /// Locks the thread's own tables, or any free ones: where something is counted does not matter.
    #[inline]
    pub(in crate::observe) fn lock_any(&self) -> MutexGuard<'_, ShardTables> {
        let mask = self.shards.len() - 1;
        let own = own_slot();
        for at in 0..self.shards.len() {
            match self.shards[(own + at) & mask].0.try_lock() {
                Ok(tables) => return tables,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.shards[own & mask].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShardTables {
    /// Counts a request under the rule at that position, and returns which line to write, if any. `name` derives the
    /// client ID, if the budget allows it.
    #[inline]
    pub(in crate::observe) fn record(
        &mut self,
        rules: &[CompiledRule],
        rule: usize,
        ClientSample { fingerprint, now_ns }: ClientSample,
        observation: Observation,
        spent: LinesUsed,
        name: impl Fn() -> Arc<str>,
    ) -> Option<LineKind> {
        let clients = clients_of(&mut self.rules, rules, rule)?;
        let mut is_first = false;
        if observation.is_refused {
            let (is_new, tracked) = clients.refused.count(fingerprint, 1, now_ns);
            is_first = is_new;
            self.names.assign(&mut tracked.name, now_ns, &name);
        }
        if observation.is_near {
            self.names.assign(&mut clients.near.count(fingerprint, 1, now_ns).1.name, now_ns, &name);
        }
        if !observation.is_violation {
            return None;
        }
        // In a flood this is the only check.
        if spent.is_exhausted() {
            clients.left_out += 1;
            return None;
        }
        let kind = match (observation.is_refused, observation.is_shadow) {
            (_, true) => LineKind::Shadow,
            (true, false) if is_first => LineKind::First,
            (true, false) => LineKind::Repeated,
            (false, false) => LineKind::Other,
        };
        let is_written = spent.allows(kind);
        clients.left_out += u64::from(!is_written);
        is_written.then_some(kind)
    }

    /// Counts a sampled request under the rule at that position.
    #[inline]
    pub(in crate::observe) fn record_traffic(
        &mut self,
        rules: &[CompiledRule],
        rule: usize,
        ClientSample { fingerprint, now_ns }: ClientSample,
        name: impl Fn() -> Arc<str>,
    ) {
        let Some(clients) = clients_of(&mut self.rules, rules, rule) else { return };
        let (_, tracked) = clients.traffic.count(fingerprint, u64::from(SAMPLED_ONE_IN), now_ns);
        if tracked.count - tracked.error >= self.named_from {
            self.names.assign(&mut tracked.name, now_ns, &name);
        }
    }
}

impl NameBudget {
    /// Assigns an ID to a client without one, if the budget allows it.
    #[inline]
    fn assign(&mut self, client: &mut Option<Arc<str>>, now_ns: u64, name: impl Fn() -> Arc<str>) {
        if client.is_some() {
            return;
        }
        let now_s = now_ns / S_NS;
        if self.now_s != now_s {
            *self = NameBudget { now_s, assigned: 0 };
        }
        self.assigned += 1;
        if self.assigned <= NAMES_PER_SECOND {
            *client = Some(name());
        }
    }
}

impl RuleClients {
    fn new(rule: &Arc<str>, capacity: usize) -> RuleClients {
        RuleClients {
            rule: Arc::clone(rule),
            refused: ClientWindows::new(WINDOW_NS, capacity),
            near: ClientWindows::new(WINDOW_NS, capacity),
            traffic: ClientWindows::new(TRAFFIC_WINDOW_NS, capacity),
            left_out: 0,
        }
    }

    fn add_to(&self, tally: &mut ClientTally, which: ClientTable, now_ns: u64) {
        match which {
            ClientTable::Refused => self.refused.recent(now_ns).for_each(|window| tally.add(window)),
            ClientTable::Near => self.near.recent(now_ns).for_each(|window| tally.add(window)),
            ClientTable::Traffic => self.traffic.complete(now_ns).into_iter().for_each(|window| tally.add(window)),
        }
    }
}

/// Returns the clients of the rule at that position. A rule is the same if its name is the same allocation, which is a
/// cheap check; after a reload, rules are matched by name.
#[inline]
fn clients_of<'a>(
    tracked: &'a mut Vec<Option<Box<RuleClients>>>,
    rules: &[CompiledRule],
    rule: usize,
) -> Option<&'a mut RuleClients> {
    let name = &rules.get(rule)?.name;
    let is_known = |at: &Option<Box<RuleClients>>| at.as_ref().is_some_and(|known| Arc::ptr_eq(&known.rule, name));
    if !tracked.get(rule).is_some_and(is_known) {
        move_to_position(tracked, rules, rule, name);
    }
    tracked.get_mut(rule)?.as_deref_mut()
}

/// Moves the clients of a rule to its position.
#[cold]
fn move_to_position(tracked: &mut Vec<Option<Box<RuleClients>>>, rules: &[CompiledRule], rule: usize, name: &Arc<str>) {
    if tracked.len() != rules.len() {
        // Rules beyond the end are dropped, except the one being looked up.
        if let Some(at) = tracked.iter().position(|known| is_named(known, name)) {
            let last = tracked.len().max(rule + 1);
            tracked.resize_with(last, || None);
            tracked.swap(at, rule);
        }
        tracked.resize_with(rules.len(), || None);
    }
    match tracked.iter().position(|known| is_named(known, name)) {
        Some(at) => tracked.swap(at, rule),
        None => tracked[rule] = Some(Box::new(RuleClients::new(name, capacity(rules.len())))),
    }
    if let Some(known) = &mut tracked[rule] {
        known.rule = Arc::clone(name);
    }
}

fn is_named(known: &Option<Box<RuleClients>>, name: &str) -> bool {
    known.as_ref().is_some_and(|known| &*known.rule == name)
}

fn capacity(rules: usize) -> usize {
    (MAX_CLIENTS_OF_ALL_RULES / rules.max(1)).clamp(MIN_CLIENTS, MAX_CLIENTS)
}
