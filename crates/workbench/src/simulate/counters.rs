//! What a simulation counts of decided requests: by client, by endpoint and over time.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use tollgate::Action;

use super::changes::Changes;
use super::report::{ACTION_KINDS, ActionCounts};
use crate::record::LogRecord;
use crate::tally::client_index::ClientIndex;
use crate::tally::peak_rates::PeakRates;
use crate::tally::time_series::TimeSeries;

/// The name of the client of requests without address and user.
const UNKNOWN: &str = "(unknown)";

/// Decided requests.
#[derive(Default)]
pub(super) struct DecidedBatch {
    pub(super) requests: Vec<SimulatedDecision>,
    /// The refusals of the rules, shadow rules included, in the order of the requests.
    pub(super) refusals: Vec<RuleRefusal>,
}

/// A decided request.
pub(super) struct SimulatedDecision {
    pub(super) time_ns: u64,
    pub(super) client: LoggedClient,
    pub(super) endpoint: u32,
    pub(super) action: Action,
    /// Whether it passes under the other policy.
    pub(super) passes_other: Option<bool>,
}

/// The client of a request: its address, or else its user.
pub(super) enum LoggedClient {
    Address(IpAddr),
    User(Box<str>),
    Unknown,
}

/// A rule that refuses a request.
#[derive(Clone, Copy)]
pub(super) struct RuleRefusal {
    /// The position of the request in its batch.
    pub(super) request: u32,
    pub(super) rule: u32,
    /// Whether it is a rule of the other policy.
    pub(super) is_other: bool,
}

/// What is counted.
pub(super) struct ActionCounters {
    pub(super) clients: ClientIndex,
    pub(super) client_tallies: Vec<ClientCounters>,
    pub(super) endpoints: Vec<ActionCounts>,
    pub(super) over_time: TimeSeries<ACTION_KINDS>,
    pub(super) without_client: u64,
    pub(super) refusals: ClientRefusals,
    pub(super) refusals_of_other: ClientRefusals,
    pub(super) changes: Changes,
    /// The clients of a batch.
    numbers: Vec<u32>,
}

/// The number of refused requests by client and rule.
pub(super) type ClientRefusals = HashMap<(u32, u32), u64, RandomState>;

/// What is counted for each client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientCounters {
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) warned: u32,
    pub(super) delayed: u32,
    pub(super) blocked: u32,
    pub(super) first_refused_ns: u64,
    pub(super) peaks: PeakRates,
}

impl LoggedClient {
    #[inline]
    pub(super) fn of(record: &LogRecord<'_>) -> LoggedClient {
        match (record.client_ip, record.user) {
            (Some(address), _) => LoggedClient::Address(address),
            (None, Some(user)) => LoggedClient::User(user.into()),
            (None, None) => LoggedClient::Unknown,
        }
    }
}

impl Default for ActionCounters {
    fn default() -> ActionCounters {
        ActionCounters {
            clients: ClientIndex::default(),
            client_tallies: Vec::new(),
            endpoints: Vec::new(),
            over_time: TimeSeries::of_seconds(),
            without_client: 0,
            refusals: HashMap::default(),
            refusals_of_other: HashMap::default(),
            changes: Changes::default(),
            numbers: Vec::new(),
        }
    }
}

impl ActionCounters {
    /// Counts requests. The clients of all are looked up first, so that the processor waits for the memory of several of
    /// them at once.
    pub(super) fn count(&mut self, batch: &DecidedBatch) {
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        numbers.extend(batch.requests.iter().map(|request| self.client(&request.client)));
        self.touch(&numbers);
        for (request, client) in batch.requests.iter().zip(&numbers) {
            self.request(request, *client);
        }
        for RuleRefusal { request, rule, is_other } in &batch.refusals {
            let refusals = if *is_other { &mut self.refusals_of_other } else { &mut self.refusals };
            *refusals.entry((numbers[*request as usize], *rule)).or_default() += 1;
        }
        self.numbers = numbers;
    }

    /// Returns the number of a client. Requests without address and user are one client.
    #[inline]
    fn client(&mut self, client: &LoggedClient) -> u32 {
        let client = match client {
            LoggedClient::Address(address) => self.clients.address(*address),
            LoggedClient::User(user) => self.clients.text(user),
            LoggedClient::Unknown => {
                self.without_client += 1;
                self.clients.text(UNKNOWN)
            }
        };
        if client as usize >= self.client_tallies.len() {
            self.client_tallies.push(ClientCounters::default());
        }
        client
    }

    /// Reads the counters of clients, and thereby brings them into the cache.
    fn touch(&self, clients: &[u32]) {
        let tallies = clients.iter().map(|client| &self.client_tallies[*client as usize]);
        std::hint::black_box(tallies.map(|tally| tally.requests).fold(0, u64::wrapping_add));
    }

    #[inline]
    fn request(&mut self, request: &SimulatedDecision, client: u32) {
        self.client_tallies[client as usize].count(request);
        let endpoint = request.endpoint as usize;
        if endpoint >= self.endpoints.len() {
            self.endpoints.resize(endpoint + 1, ActionCounts::default());
        }
        self.endpoints[endpoint].count(request.action);
        self.over_time.count(request.time_ns, ActionCounts::kind(request.action));
        if let Some(passes_other) = request.passes_other {
            self.changes.count(client, request.action.is_allowed(), passes_other);
        }
    }
}

impl ClientCounters {
    #[inline]
    fn count(&mut self, request: &SimulatedDecision) {
        self.requests += 1;
        self.peaks.count(request.time_ns);
        match request.action {
            Action::Allow => return,
            Action::Warn => self.warned = self.warned.saturating_add(1),
            Action::Delay => self.delayed = self.delayed.saturating_add(1),
            Action::Block => self.blocked = self.blocked.saturating_add(1),
            Action::Reject | Action::Deny => {}
        }
        if !request.action.is_allowed() {
            if self.refused == 0 {
                self.first_refused_ns = request.time_ns;
            }
            self.refused += 1;
        }
    }
}
