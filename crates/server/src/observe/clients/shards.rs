use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tollgate::policy::CompiledRule;

use super::rule_clients::{RuleClients, Sighting};
use super::tally::Tally;
use crate::metrics::thread_slot::own_slot;
use crate::observe::log::line_budget::{LineKind, Spent};

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

const S_NS: u64 = 1_000_000_000;

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
    naming_s: u64,
    names_given: u64,
}

/// Which clients of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) enum Which {
    Refused,
    Near,
}

impl Shards {
    /// Two for each processor: who finds its own busy finds another free.
    pub(in crate::observe) fn new() -> Shards {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let count = (threads * 2).next_power_of_two().min(MAX_SHARDS);
        Shards { shards: (0..count).map(|_| Shard::default()).collect() }
    }

    /// All that is known of the clients of a rule.
    pub(in crate::observe) fn tally(&self, rule: &str, which: Which, now_ns: u64) -> Tally {
        let mut tally = Tally::default();
        self.each(|clients| {
            if &*clients.rule == rule {
                add(&mut tally, clients, which, now_ns);
            }
        });
        tally
    }

    /// The same for every rule of which something is known.
    pub(in crate::observe) fn tallies(&self, which: Which, now_ns: u64) -> HashMap<Arc<str>, Tally> {
        let mut tallies: HashMap<Arc<str>, Tally> = HashMap::new();
        self.each(|clients| add(tallies.entry(Arc::clone(&clients.rule)).or_default(), clients, which, now_ns));
        tallies
    }

    /// The requests of the last window that is complete, from a sample.
    pub(in crate::observe) fn traffic(&self, now_ns: u64) -> HashMap<Arc<str>, Tally> {
        let mut tallies: HashMap<Arc<str>, Tally> = HashMap::new();
        self.each(|clients| {
            if let Some(window) = clients.traffic.complete(now_ns) {
                tallies.entry(Arc::clone(&clients.rule)).or_default().add(window);
            }
        });
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
        self.each(RuleClients::forget_clients);
    }

    fn each(&self, mut look: impl FnMut(&mut RuleClients)) {
        for shard in &self.shards {
            let mut tables = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            tables.rules.iter_mut().flatten().for_each(|clients| look(clients));
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
    /// Counts a request under the rule at that position, and says which line is to be written.
    #[inline]
    pub(in crate::observe) fn see(
        &mut self,
        rules: &[CompiledRule],
        rule: usize,
        sighting: Sighting,
        spent: Spent,
        name: impl Fn() -> Arc<str>,
    ) -> Option<LineKind> {
        let Tables { rules: tracked, naming_s, names_given } = self;
        clients_of(tracked, rules, rule)?.see(sighting, spent, || {
            let now_s = sighting.now_ns / S_NS;
            if *naming_s != now_s {
                (*naming_s, *names_given) = (now_s, 0);
            }
            *names_given += 1;
            (*names_given <= NAMES_A_SECOND).then(&name)
        })
    }
}

fn add(tally: &mut Tally, clients: &RuleClients, which: Which, now_ns: u64) {
    let windows = match which {
        Which::Refused => &clients.refused,
        Which::Near => &clients.near,
    };
    windows.in_sight(now_ns).for_each(|window| tally.add(window));
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
