use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::FixedState;
use tollgate::clock::Clock;
use tollgate::policy::promise::{Promise, algorithm_words};

use super::event::{AdminChange, Event, Level, Notice, RuleNotice};
use super::feed::{EventSubscription, Feed};
use super::log::EventLog;
use super::periodic::Periodic;
use super::refused_call::{CallRefusal, RefusedCall, RefusedCalls};
use super::timestamp::Timestamp;
use super::violation;
use crate::observe::clients::client_names::{ClientNames, IdentityFormat, LogKeyError};
use crate::observe::clients::rule_clients::{ClientShards, ClientTable};
use crate::observe::clients::tally::{ClientTally, FrequentClient};
use crate::observe::log::line_budget::{LineBudget, LogThrottle, UncountedNotices};
use crate::server::Listener;

const S_NS: u64 = 1_000_000_000;

/// Settings of an observer.
#[derive(Debug, Default)]
pub struct ObserverSettings {
    /// The format of client IDs.
    pub identities: IdentityFormat,
    /// The file with the key for hashes, of at least 16 bytes. Without it the key is random, and changes at every
    /// start.
    pub key_file: Option<PathBuf>,
    /// The log, if any.
    pub log: Option<EventLog>,
}

/// Records every decision, and reports refused clients, clients near a limit, and bursts.
///
/// Its memory and its output are bounded, whatever clients do. By default it stores and logs a keyed hash of a client,
/// never the client.
pub struct Observer {
    pub(super) clock: Arc<dyn Clock>,
    /// Fingerprints clients in memory. Randomly seeded, so that collisions cannot be chosen.
    pub(super) hasher: FixedState,
    pub(super) names: ClientNames,
    pub(super) shards: ClientShards,
    pub(super) budget: LineBudget,
    /// Violations without a line that no rule counts: another thread took the line, or no rule decided.
    pub(super) left_out: AtomicU64,
    store_notices: LogThrottle,
    uncounted_notices: UncountedNotices,
    refused_call_lines: LogThrottle,
    /// Per ten seconds.
    failed_handshake_lines: LogThrottle,
    untrusted_gateway_lines: LogThrottle,
    pub(super) refused_calls: RefusedCalls,
    feed: Feed,
    log: Option<EventLog>,
    periodic: Mutex<Periodic>,
}

impl Observer {
    /// Creates an observer with this clock.
    pub fn new(settings: ObserverSettings, clock: Arc<dyn Clock>) -> Result<Observer, LogKeyError> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|_| LogKeyError::NoRandom)?;
        let names = ClientNames::new(settings.identities, settings.key_file)?;
        let periodic = Periodic::from(clock.now_ns());
        Ok(Observer {
            clock,
            hasher: FixedState::with_seed(u64::from_ne_bytes(seed)),
            names,
            shards: ClientShards::new(),
            budget: LineBudget::default(),
            left_out: AtomicU64::new(0),
            store_notices: LogThrottle::default(),
            uncounted_notices: UncountedNotices::default(),
            refused_call_lines: LogThrottle::default(),
            failed_handshake_lines: LogThrottle::default(),
            untrusted_gateway_lines: LogThrottle::default(),
            refused_calls: RefusedCalls::new(),
            feed: Feed::new(),
            log: settings.log,
            periodic: Mutex::new(periodic),
        })
    }

    /// Returns the clients that this rule refused most often in the last 30 to 60 seconds; for a shadow rule, those
    /// that it would have refused.
    #[must_use]
    pub fn top(&self, rule: &str, max: usize) -> Vec<FrequentClient> {
        self.shards.tally(rule, ClientTable::Refused, self.clock.now_ns()).top(max)
    }

    /// Returns the clients that most often passed with at most a tenth of this rule's limit left.
    #[must_use]
    pub fn near_limit(&self, rule: &str, max: usize) -> Vec<FrequentClient> {
        self.shards.tally(rule, ClientTable::Near, self.clock.now_ns()).top(max)
    }

    /// Returns the number of requests that the rule refused in the same period.
    #[must_use]
    pub fn refusals(&self, rule: &str) -> u64 {
        self.shards.tally(rule, ClientTable::Refused, self.clock.now_ns()).total()
    }

    /// Returns the most recent events, the oldest first.
    #[must_use]
    pub fn recent_events(&self) -> Vec<Arc<Event>> {
        self.feed.recent()
    }

    /// Subscribes to future events.
    #[must_use]
    pub fn subscribe(&self) -> EventSubscription {
        self.feed.subscribe()
    }

    /// Logs a notice.
    pub fn say(&self, level: Level, message: impl fmt::Display) {
        let message = message.to_string();
        self.emit(Event::Notice(Notice { time: self.now(), level, message }));
    }

    /// Logs a notice about the store, at most a few a second.
    pub fn log_store_notice(&self, level: Level, message: impl fmt::Display) {
        if self.try_take_line(&self.store_notices, 1) {
            self.say(level, message);
        }
    }

    /// Logs that requests are refused because they cannot be counted: the first at once, then the number periodically.
    pub(super) fn log_uncounted(&self, now_ns: u64) {
        if let Some(message) = self.uncounted_notices.take(now_ns / S_NS) {
            self.say(Level::Warning, message);
        }
    }

    /// Logs the guarantees of an active rule.
    pub fn introduce(&self, promise: &Promise) {
        let limits = promise.grants.iter().flat_map(|grant| &grant.limits);
        let mut algorithms: Vec<String> = limits.map(|limit| algorithm_words(&limit.quota)).collect();
        algorithms.sort();
        algorithms.dedup();
        let promised: Vec<String> = promise.to_string().lines().map(|line| line.trim().to_owned()).collect();
        self.emit(Event::Rule(RuleNotice {
            time: self.now(),
            rule: promise.rule.clone(),
            algorithms,
            promise: promised.join("; "),
        }));
    }

    /// Reads the key file again, and returns the ID of the key if it changed. Clients are then counted anew, under
    /// their new IDs.
    pub fn reread_key(&self) -> Result<Option<String>, LogKeyError> {
        let id = self.names.reread_key()?;
        if id.is_some() {
            self.shards.clear();
            self.periodic().bursts.clear();
        }
        Ok(id)
    }

    /// Waits until all events so far are written, at most this long.
    pub fn flush(&self, timeout: Duration) {
        if let Some(log) = &self.log {
            log.flush(timeout);
        }
    }

    pub(super) fn emit(&self, event: Event) {
        let event = Arc::new(event);
        self.feed.publish(&event);
        if let Some(log) = &self.log {
            log.write(&event);
        }
    }

    /// Returns the number of dropped lines.
    pub(super) fn lines_dropped(&self) -> u64 {
        self.log.as_ref().map_or(0, EventLog::dropped)
    }

    /// Returns the recently refused clients, by rule.
    pub(super) fn refused(&self) -> HashMap<Arc<str>, ClientTally> {
        self.shards.tallies(ClientTable::Refused, self.clock.now_ns())
    }

    pub(super) fn periodic(&self) -> MutexGuard<'_, Periodic> {
        self.periodic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the client ID of a key.
    pub(crate) fn client_name(&self, key: &[u8]) -> Arc<str> {
        self.names.name(key)
    }

    /// Logs a change through the admin API. It is never throttled.
    pub(crate) fn note_change(&self, change: AdminChange) {
        self.emit(Event::Change(change));
    }

    /// Counts a refused call, and logs it, at most a few a second.
    pub(crate) fn note_refused_call(&self, listener: &'static str, why: CallRefusal, method: &str, from: IpAddr) {
        let method = violation::method(method).unwrap_or_default();
        self.refused_calls.count(listener, why);
        if self.try_take_line(&self.refused_call_lines, 1) {
            self.emit(Event::RefusedCall(RefusedCall { time: self.now(), listener, why, method, from }));
        }
    }

    /// Logs why a TLS handshake failed. A certificate that is not accepted is a configuration mistake; a client that
    /// closes the connection, as scanners and probes do, is only counted.
    pub(crate) fn note_failed_handshake(&self, listener: &str, from: IpAddr, error: &io::Error) {
        if error.kind() != io::ErrorKind::InvalidData {
            return;
        }
        if self.try_take_line(&self.failed_handshake_lines, 10) {
            let client = self.address_name(from);
            self.say(Level::Warning, format_args!("TLS handshake on {listener} failed for {client}: {error}"));
        }
    }

    /// Logs that a peer describes requests of other clients, and is not believed: an address is missing in the policy,
    /// or a client tries to choose what is counted.
    pub(crate) fn note_untrusted_gateway(&self, from: IpAddr) {
        if self.try_take_line(&self.untrusted_gateway_lines, 60) {
            let from = from.to_canonical();
            let message = format_args!(
                "forward-auth: the method, path and client address that {from} states are ignored, because it is not one \
                 of the policy's trusted_proxies; if it is your gateway, add it: \
                 `identity: {{ client_ip: {{ trusted_proxies: [{from}] }} }}`"
            );
            self.say(Level::Warning, message);
        }
    }

    /// Logs that a client sent plain text to a TLS listener.
    pub(crate) fn note_plaintext(&self, listener: Listener, from: IpAddr) {
        if self.try_take_line(&self.failed_handshake_lines, 10) {
            let (client, name) = (self.address_name(from), listener.name());
            let (plain, encrypted) = listener.schemes();
            let message = format_args!(
                "TLS handshake on {name} failed for {client}: it sent plain {plain} to a TLS listener; \
                 connect with {encrypted}://"
            );
            self.say(Level::Warning, message);
        }
    }

    fn address_name(&self, address: IpAddr) -> Arc<str> {
        self.client_name(address.to_canonical().to_string().as_bytes())
    }

    /// Takes a line of the throttle; omitted lines are counted.
    fn try_take_line(&self, throttle: &LogThrottle, window_s: u64) -> bool {
        let is_written = throttle.take(self.clock.now_ns() / (window_s * S_NS));
        self.left_out.fetch_add(u64::from(!is_written), Relaxed);
        is_written
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.clock.now_ns())
    }
}

/// Omits everything about clients.
impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("names", &self.names).finish_non_exhaustive()
    }
}
