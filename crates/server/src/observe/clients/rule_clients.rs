use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tollgate::policy::CompiledRule;

use super::bursts::MIN_BURST_REQUESTS;
use super::frequent_clients::Windows;
use super::tally::Tally;
use crate::metrics::sharded_counters::own_slot;
use crate::observe::log::line_budget::{LineKind, Spent};

const S_NS: u64 = 1_000_000_000;

/// How long a window of refusals and near misses is: what is told is of the last 30 to 60 seconds.
const WINDOW_NS: u64 = 30 * S_NS;

/// How long a window is in which the requests of a client are counted, to see whether they surge.
pub(in crate::observe) const TRAFFIC_WINDOW_NS: u64 = 10 * S_NS;

/// Of so many requests one is looked at for that.
pub(in crate::observe) const SAMPLED_ONE_IN: u32 = 16;

/// The most clients that a thread tracks for one rule.
const MAX_CLIENTS: usize = 128;

/// The fewest, however many rules there are.
const MIN_CLIENTS: usize = 16;

/// What a thread tracks for all its rules together, as long as each has the fewest.
const CLIENTS_OF_ALL_RULES: usize = 4_096;

/// More threads than this share.
const MAX_SHARDS: usize = 16;

/// How many clients get their name in a second, for each shard. It takes a
/// microsecond each, and a flood may bring a new client with every request;
/// who stays gets a name a little later.
const NAMES_A_SECOND: u64 = 500;

/// The clients of all rules. Each thread has a table of its own, and whoever
/// wants to know puts them together; so counting neither waits nor loses anything.
#[derive(Debug)]
pub(in crate::observe) struct Shards {
    shards: Box<[Shard]>,
}

/// Alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Tables>);

#[derive(Debug, Default)]
pub(in crate::observe) struct Tables {
    /// Each at the position of its rule in the policy that was last seen.
    rules: Vec<Option<Box<RuleClients>>>,
    names: NameBudget,
    /// From how many requests of a window on a client is named, lest a burst have no name.
    named_from: u64,
}

/// How many names were given in which second.
#[derive(Debug, Default)]
struct NameBudget {
    now_s: u64,
    given: u64,
}

/// The clients of one rule.
#[derive(Debug)]
pub(in crate::observe) struct RuleClients {
    rule: Arc<str>,
    /// Who was refused, or would have been by a rule that is only watched.
    refused: Windows,
    /// Who passed, and has nearly used up the limit.
    near: Windows,
    /// Who asked at all, from a sample.
    traffic: Windows,
    /// Violations of which no line was written.
    left_out: u64,
}

/// Whose request it is, and when it was decided.
#[derive(Clone, Copy, Debug)]
pub(in crate::observe) struct Client {
    pub(in crate::observe) fingerprint: u64,
    pub(in crate::observe) now_ns: u64,
}

/// What a rule says of a request that is no plain pass.
#[derive(Clone, Copy, Debug)]
pub(in crate::observe) struct Sighting {
    /// Refused, or it would have been.
    pub(in crate::observe) is_refused: bool,
    /// Passed with at most a tenth of the limit left.
    pub(in crate::observe) is_near: bool,
    /// Refused by a rule that is only watched.
    pub(in crate::observe) is_watched: bool,
    /// Something that deserves a line.
    pub(in crate::observe) is_violation: bool,
}

/// Which clients of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) enum Which {
    /// In the windows that are still in sight.
    Refused,
    Near,
    /// Of the last window that is complete, from a sample.
    Traffic,
}

impl Shards {
    /// Two for each processor: who finds its own busy finds another free.
    pub(in crate::observe) fn new() -> Shards {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let count = (threads * 2).next_power_of_two().min(MAX_SHARDS);
        // Only a burst is told of. However it is spread over the shards, one of them has this much of it.
        let named_from = MIN_BURST_REQUESTS / count as u64;
        let shard = |_| Shard(Mutex::new(Tables { named_from, ..Tables::default() }));
        Shards { shards: (0..count).map(shard).collect() }
    }

    /// All that is known of the clients of a rule.
    pub(in crate::observe) fn tally(&self, rule: &str, which: Which, now_ns: u64) -> Tally {
        let mut tally = Tally::default();
        self.each(|clients| {
            if &*clients.rule == rule {
                clients.add_to(&mut tally, which, now_ns);
            }
        });
        tally
    }

    /// The same for every rule of which something is known.
    pub(in crate::observe) fn tallies(&self, which: Which, now_ns: u64) -> HashMap<Arc<str>, Tally> {
        let mut tallies: HashMap<Arc<str>, Tally> = HashMap::new();
        self.each(|clients| clients.add_to(tallies.entry(Arc::clone(&clients.rule)).or_default(), which, now_ns));
        tallies
    }

    /// How many violations had no line since this was last asked, by rule.
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

    /// Begins anew with clients, because from now on they have other names.
    pub(in crate::observe) fn forget_clients(&self) {
        self.each(|clients| [&mut clients.refused, &mut clients.near, &mut clients.traffic].map(Windows::clear));
    }

    fn each<R>(&self, mut look: impl FnMut(&mut RuleClients) -> R) {
        for shard in &self.shards {
            let mut tables = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            tables.rules.iter_mut().flatten().for_each(|clients| drop(look(clients)));
        }
    }

    /// The thread's own tables, or any that are free: where something is counted does not matter.
    #[inline]
    pub(in crate::observe) fn lock_any(&self) -> MutexGuard<'_, Tables> {
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

impl Tables {
    /// Counts a request under the rule at that position, and says which line is to be written of it, if any. `name`
    /// gives a client its name, if there is time for it.
    #[inline]
    pub(in crate::observe) fn see(
        &mut self,
        rules: &[CompiledRule],
        rule: usize,
        Client { fingerprint, now_ns }: Client,
        sighting: Sighting,
        spent: Spent,
        name: impl Fn() -> Arc<str>,
    ) -> Option<LineKind> {
        let clients = clients_of(&mut self.rules, rules, rule)?;
        let mut is_first = false;
        if sighting.is_refused {
            let (is_new, tracked) = clients.refused.count(fingerprint, 1, now_ns);
            is_first = is_new;
            self.names.give(&mut tracked.name, now_ns, &name);
        }
        if sighting.is_near {
            self.names.give(&mut clients.near.count(fingerprint, 1, now_ns).1.name, now_ns, &name);
        }
        if !sighting.is_violation {
            return None;
        }
        // In a flood this is all that is looked at.
        if spent.is_all() {
            clients.left_out += 1;
            return None;
        }
        let kind = match (sighting.is_refused, sighting.is_watched) {
            (_, true) => LineKind::Watched,
            (true, false) if is_first => LineKind::First,
            (true, false) => LineKind::Repeated,
            (false, false) => LineKind::Other,
        };
        let is_written = spent.allows(kind);
        clients.left_out += u64::from(!is_written);
        is_written.then_some(kind)
    }

    /// Counts a request of the sample under the rule at that position.
    #[inline]
    pub(in crate::observe) fn see_traffic(
        &mut self,
        rules: &[CompiledRule],
        rule: usize,
        Client { fingerprint, now_ns }: Client,
        name: impl Fn() -> Arc<str>,
    ) {
        let Some(clients) = clients_of(&mut self.rules, rules, rule) else { return };
        let (_, tracked) = clients.traffic.count(fingerprint, u64::from(SAMPLED_ONE_IN), now_ns);
        if tracked.count - tracked.error >= self.named_from {
            self.names.give(&mut tracked.name, now_ns, &name);
        }
    }
}

impl NameBudget {
    /// Names a client who has no name yet, if the second has one left.
    #[inline]
    fn give(&mut self, client: &mut Option<Arc<str>>, now_ns: u64, name: impl Fn() -> Arc<str>) {
        if client.is_some() {
            return;
        }
        let now_s = now_ns / S_NS;
        if self.now_s != now_s {
            *self = NameBudget { now_s, given: 0 };
        }
        self.given += 1;
        if self.given <= NAMES_A_SECOND {
            *client = Some(name());
        }
    }
}

impl RuleClients {
    fn new(rule: &Arc<str>, capacity: usize) -> RuleClients {
        RuleClients {
            rule: Arc::clone(rule),
            refused: Windows::new(WINDOW_NS, capacity),
            near: Windows::new(WINDOW_NS, capacity),
            traffic: Windows::new(TRAFFIC_WINDOW_NS, capacity),
            left_out: 0,
        }
    }

    fn add_to(&self, tally: &mut Tally, which: Which, now_ns: u64) {
        match which {
            Which::Refused => self.refused.in_sight(now_ns).for_each(|window| tally.add(window)),
            Which::Near => self.near.in_sight(now_ns).for_each(|window| tally.add(window)),
            Which::Traffic => self.traffic.complete(now_ns).into_iter().for_each(|window| tally.add(window)),
        }
    }
}

/// The clients of the rule at that position. A rule is the same as long as its
/// name is the same piece of memory, which takes no time to see; when the
/// policy was replaced, rules are found again by their names.
#[inline]
fn clients_of<'a>(
    tracked: &'a mut Vec<Option<Box<RuleClients>>>,
    rules: &[CompiledRule],
    rule: usize,
) -> Option<&'a mut RuleClients> {
    let name = &rules.get(rule)?.name;
    let is_known = |at: &Option<Box<RuleClients>>| at.as_ref().is_some_and(|known| Arc::ptr_eq(&known.rule, name));
    if !tracked.get(rule).is_some_and(is_known) {
        find_again(tracked, rules, rule, name);
    }
    tracked.get_mut(rule)?.as_deref_mut()
}

/// Puts the clients of a rule of that name at its position.
#[cold]
fn find_again(tracked: &mut Vec<Option<Box<RuleClients>>>, rules: &[CompiledRule], rule: usize, name: &Arc<str>) {
    if tracked.len() != rules.len() {
        // Those behind the end are gone, unless one of them is looked for now.
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
    (CLIENTS_OF_ALL_RULES / rules.max(1)).clamp(MIN_CLIENTS, MAX_CLIENTS)
}
