use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::FixedState;
use tollgate::Clock;
use tollgate::policy::promise::{Promise, algorithm_words};

use super::event::{Change, Event, Level, Notice, RuleInForce};
use super::feed::{Feed, Subscription};
use super::log::Log;
use super::periodic::Periodic;
use super::refused_call::{RefusedCall, RefusedCalls, WhyRefused};
use super::timestamp::Timestamp;
use super::violation;
use crate::observe::clients::client_names::{ClientNames, Identities, LogKeyError};
use crate::observe::clients::rule_clients::{Shards, Which};
use crate::observe::clients::tally::{FrequentClient, Tally};
use crate::observe::log::line_budget::{LineBudget, LogThrottle, UncountedNotices};

const S_NS: u64 = 1_000_000_000;

/// How clients are told of, and who writes it down.
#[derive(Debug, Default)]
pub struct ObserverSettings {
    /// How clients are told of.
    pub identities: Identities,
    /// A file with the key for hashes, of at least 16 bytes. Without it the key is random, and another after every start.
    pub key_file: Option<PathBuf>,
    /// Who writes events down, if anybody.
    pub log: Option<Log>,
}

/// Sees every decision, and tells of those that matter: who is refused, who is
/// near a limit, and who suddenly asks far more than before.
///
/// What it knows takes bounded memory, and what it writes is bounded too,
/// whatever clients do. Under the default settings it keeps and tells a keyed
/// hash of a client, never the client.
pub struct Observer {
    pub(super) clock: Arc<dyn Clock>,
    /// Tells clients apart in memory. Random, so that nobody can choose who is taken for whom.
    pub(super) hasher: FixedState,
    pub(super) names: ClientNames,
    pub(super) shards: Shards,
    pub(super) budget: LineBudget,
    /// Violations whose line somebody else was faster to take, or that no rule decided.
    pub(super) left_out: AtomicU64,
    store_notices: LogThrottle,
    uncounted_notices: UncountedNotices,
    refused_call_lines: LogThrottle,
    /// Of ten seconds at a time.
    failed_handshake_lines: LogThrottle,
    pub(super) refused_calls: RefusedCalls,
    feed: Feed,
    log: Option<Log>,
    periodic: Mutex<Periodic>,
}

impl Observer {
    /// One that goes by this clock.
    pub fn new(settings: ObserverSettings, clock: Arc<dyn Clock>) -> Result<Observer, LogKeyError> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|_| LogKeyError::NoRandom)?;
        let names = ClientNames::new(settings.identities, settings.key_file)?;
        let periodic = Periodic::from(clock.now_ns());
        Ok(Observer {
            clock,
            hasher: FixedState::with_seed(u64::from_ne_bytes(seed)),
            names,
            shards: Shards::new(),
            budget: LineBudget::default(),
            left_out: AtomicU64::new(0),
            store_notices: LogThrottle::default(),
            uncounted_notices: UncountedNotices::default(),
            refused_call_lines: LogThrottle::default(),
            failed_handshake_lines: LogThrottle::default(),
            refused_calls: RefusedCalls::new(),
            feed: Feed::new(),
            log: settings.log,
            periodic: Mutex::new(periodic),
        })
    }

    /// The clients that this rule refused most often in the last 30 to 60
    /// seconds; of a shadow, those that it would have refused.
    #[must_use]
    pub fn top(&self, rule: &str, at_most: usize) -> Vec<FrequentClient> {
        self.shards.tally(rule, Which::Refused, self.clock.now_ns()).top(at_most)
    }

    /// The clients that most often passed with at most a tenth of this rule's limit left.
    #[must_use]
    pub fn near_limit(&self, rule: &str, at_most: usize) -> Vec<FrequentClient> {
        self.shards.tally(rule, Which::Near, self.clock.now_ns()).top(at_most)
    }

    /// How many requests the rule refused in the same time, whoever asked.
    #[must_use]
    pub fn refusals(&self, rule: &str) -> u64 {
        self.shards.tally(rule, Which::Refused, self.clock.now_ns()).total()
    }

    /// The latest events, the oldest first.
    #[must_use]
    pub fn recent_events(&self) -> Vec<Arc<Event>> {
        self.feed.recent()
    }

    /// Everything that happens from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.feed.subscribe()
    }

    /// Says something to people.
    pub fn say(&self, level: Level, message: impl fmt::Display) {
        let message = message.to_string();
        self.tell(Event::Notice(Notice { time: self.now(), level, message }));
    }

    /// Says what the store is at, but not more often than somebody can read it.
    pub fn say_of_store(&self, level: Level, message: impl fmt::Display) {
        if self.takes_line(&self.store_notices, 1) {
            self.say(level, message);
        }
    }

    /// Says that requests are refused because they cannot be counted: the first, then once in a while how many.
    pub(super) fn say_uncounted(&self, now_ns: u64) {
        if let Some(message) = self.uncounted_notices.take(now_ns / S_NS) {
            self.say(Level::Warning, message);
        }
    }

    /// Tells what a rule that was put in force promises.
    pub fn introduce(&self, promise: &Promise) {
        let limits = promise.grants.iter().flat_map(|grant| &grant.limits);
        let mut algorithms: Vec<String> = limits.map(|limit| algorithm_words(&limit.quota)).collect();
        algorithms.sort();
        algorithms.dedup();
        let promised: Vec<String> = promise.to_string().lines().map(|line| line.trim().to_owned()).collect();
        self.tell(Event::Rule(RuleInForce {
            time: self.now(),
            rule: promise.rule.clone(),
            algorithms,
            promise: promised.join("; "),
        }));
    }

    /// Reads the key's file again, and returns the id of the key if it is a new
    /// one. Clients are then counted anew, under their new names.
    pub fn reread_key(&self) -> Result<Option<String>, LogKeyError> {
        let id = self.names.reread_key()?;
        if id.is_some() {
            self.shards.forget_clients();
            self.periodic().bursts.forget_clients();
        }
        Ok(id)
    }

    /// Waits until everything so far is written, but not longer than that.
    pub fn flush(&self, at_most: Duration) {
        if let Some(log) = &self.log {
            log.flush(at_most);
        }
    }

    pub(super) fn tell(&self, event: Event) {
        let event = Arc::new(event);
        self.feed.tell(&event);
        if let Some(log) = &self.log {
            log.write(&event);
        }
    }

    /// Lines that were lost because nobody took them.
    pub(super) fn lines_dropped(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::dropped)
    }

    /// Who was refused lately, by rule.
    pub(super) fn refused(&self) -> HashMap<Arc<str>, Tally> {
        self.shards.tallies(Which::Refused, self.clock.now_ns())
    }

    pub(super) fn periodic(&self) -> MutexGuard<'_, Periodic> {
        self.periodic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a client is called whose key under a rule this is.
    pub(crate) fn client_name(&self, key: &[u8]) -> Arc<str> {
        self.names.name(key)
    }

    /// Writes down what an operator did. It is never left out.
    pub(crate) fn note_change(&self, change: Change) {
        self.tell(Event::Change(change));
    }

    /// Counts a call that a listener did not admit, and writes it down, but not more often than an operator can read.
    pub(crate) fn note_refused_call(&self, listener: &'static str, why: WhyRefused, method: &str, from: IpAddr) {
        let method = violation::method(method).unwrap_or_default();
        self.refused_calls.count(listener, why);
        if self.takes_line(&self.refused_call_lines, 1) {
            self.tell(Event::RefusedCall(RefusedCall { time: self.now(), listener, why, method, from }));
        }
    }

    /// Says why somebody did not get through the TLS handshake. A certificate
    /// that is not taken is somebody's mistake; who only hangs up, as scanners
    /// and probes do, is only counted.
    pub(crate) fn note_failed_handshake(&self, listener: &str, from: IpAddr, error: &io::Error) {
        if error.kind() != io::ErrorKind::InvalidData {
            return;
        }
        if self.takes_line(&self.failed_handshake_lines, 10) {
            let client = self.client_name(from.to_canonical().to_string().as_bytes());
            let message = format_args!("{client} did not get through the TLS handshake on {listener}: {error}");
            self.say(Level::Warning, message);
        }
    }

    /// Whether there is a line left in these seconds; one that is not written is counted.
    fn takes_line(&self, throttle: &LogThrottle, window_s: u64) -> bool {
        let is_written = throttle.take(self.clock.now_ns() / (window_s * S_NS));
        self.left_out.fetch_add(u64::from(!is_written), Relaxed);
        is_written
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.clock.now_ns())
    }
}

/// Nothing of any client.
impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("names", &self.names).finish_non_exhaustive()
    }
}
