//! What a policy would have done to the traffic of a log: the limiter itself, in virtual time.

mod changes;
mod policy_run;
mod report;

use tollgate::LimiterError;
use tollgate::policy::CheckedPolicy;

use crate::record::LogRecord;
use crate::tally::client_index::ClientIndex;
use crate::tally::endpoint_index::EndpointIndex;
use crate::tally::peak_rates::PeakRates;
use crate::tally::time_series::TimeSeries;
use changes::Changes;
use policy_run::PolicyRun;
pub use report::{
    ActionCounts, ChangeReport, ChangedClient, EndpointReport, HurtClient, PeakBin, RuleReport, SimulationReport,
};

/// The kinds of a [`TimeSeries`] of decisions.
pub(crate) const ALLOWED: usize = 0;
/// The kinds of a [`TimeSeries`] of decisions.
pub(crate) const REFUSED: usize = 1;

/// A policy, and possibly a second one, that decide the requests of a log in virtual time.
///
/// A log has only what was logged. The address is that of the client, so trusted proxies do not apply. Counters are in
/// memory, whatever store the policy names. Requests have no duration, so concurrency limits never refuse.
///
/// ```
/// use tollgate::policy::parse;
/// use tollgate_workbench::LogRecord;
/// use tollgate_workbench::simulate::Simulation;
///
/// let policy = "version: 1\nrules: [ { name: per-ip, key: client_ip, limit: 2/min } ]";
/// let mut simulation = Simulation::new(&parse(policy, "policy.yaml", None)?.policy)?;
/// let request = LogRecord { client_ip: "203.0.113.9".parse().ok(), method: "GET", target: "/", ..LogRecord::default() };
/// for time_s in [1, 2, 3] {
///     simulation.request(&LogRecord { time_ns: time_s * 1_000_000_000, ..request });
/// }
/// let report = simulation.finish();
/// assert_eq!((report.actions.allowed, report.actions.refused), (2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation {
    run: PolicyRun,
    against: Option<(PolicyRun, Changes)>,
    clients: ClientIndex,
    client_tallies: Vec<ClientTally>,
    endpoints: EndpointIndex,
    endpoint_counts: Vec<[u64; 2]>,
    over_time: TimeSeries<2>,
    without_client: u64,
    now_ns: u64,
    /// The clients of a batch of requests.
    batch: Vec<u32>,
}

/// What is counted for each client.
#[derive(Clone, Copy, Debug, Default)]
struct ClientTally {
    requests: u64,
    refused: u64,
    first_refused_ns: u64,
    peaks: PeakRates,
}

impl Simulation {
    /// Prepares the simulation of a policy.
    ///
    /// # Errors
    /// The policy cannot be compiled, or is too large for a store in memory.
    pub fn new(policy: &CheckedPolicy) -> Result<Simulation, LimiterError> {
        Ok(Simulation {
            run: PolicyRun::new(policy)?,
            against: None,
            clients: ClientIndex::default(),
            client_tallies: Vec::new(),
            endpoints: EndpointIndex::default(),
            endpoint_counts: Vec::new(),
            over_time: TimeSeries::of_seconds(),
            without_client: 0,
            now_ns: 0,
            batch: Vec::new(),
        })
    }

    /// Adds a policy whose decisions are compared with those of the first.
    ///
    /// # Errors
    /// The policy cannot be compiled, or is too large for a store in memory.
    pub fn against(mut self, policy: &CheckedPolicy) -> Result<Simulation, LimiterError> {
        self.against = Some((PolicyRun::new(policy)?, Changes::default()));
        Ok(self)
    }

    /// Decides a request, and returns whether it passes. A time before that of the last request is taken as that time.
    pub fn request(&mut self, record: &LogRecord<'_>) -> bool {
        let client = self.client(record);
        self.decide(record, client)
    }

    /// Decides requests, as [`request`](Simulation::request), in less time: the clients of all are looked up first, so
    /// that the processor waits for several of them at once.
    pub fn requests(&mut self, records: &[LogRecord<'_>]) {
        let mut clients = std::mem::take(&mut self.batch);
        clients.extend(records.iter().map(|record| self.client(record)));
        for (record, client) in records.iter().zip(clients.drain(..)) {
            self.decide(record, client);
        }
        self.batch = clients;
    }

    fn decide(&mut self, record: &LogRecord<'_>, client: u32) -> bool {
        self.now_ns = self.now_ns.max(record.time_ns);
        let now_ns = self.now_ns;
        let endpoint = self.endpoints.number(record.method, record.target) as usize;
        let passed = self.run.decide(record, now_ns, client);
        if let Some((other, changes)) = &mut self.against {
            changes.count(client, passed, other.decide(record, now_ns, client));
        }
        self.count_client(client, passed);
        let kind = if passed { ALLOWED } else { REFUSED };
        if endpoint >= self.endpoint_counts.len() {
            self.endpoint_counts.resize(endpoint + 1, [0; 2]);
        }
        self.endpoint_counts[endpoint][kind] += 1;
        self.over_time.count(now_ns, kind);
        passed
    }

    /// Returns the result.
    #[must_use]
    pub fn finish(self) -> SimulationReport {
        report::report(self)
    }

    /// Returns the number of the client: its address, or else its user. Requests without either are one client.
    fn client(&mut self, record: &LogRecord<'_>) -> u32 {
        let client = match (record.client_ip, record.user) {
            (Some(address), _) => self.clients.address(address),
            (None, Some(user)) => self.clients.text(user),
            (None, None) => {
                self.without_client += 1;
                self.clients.text("(unknown)")
            }
        };
        if client as usize >= self.client_tallies.len() {
            self.client_tallies.push(ClientTally::default());
        }
        client
    }

    #[inline]
    fn count_client(&mut self, client: u32, passed: bool) {
        let tally = &mut self.client_tallies[client as usize];
        tally.requests += 1;
        tally.peaks.count(self.now_ns);
        if !passed {
            if tally.refused == 0 {
                tally.first_refused_ns = self.now_ns;
            }
            tally.refused += 1;
        }
    }
}

#[cfg(test)]
mod tests;
