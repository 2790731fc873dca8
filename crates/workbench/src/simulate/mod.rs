//! What a policy would have done to the traffic of a log: the limiter itself, in virtual time.

mod changes;
mod counters;
mod counting_thread;
mod policy_run;
mod report;

use tollgate::LimiterError;
use tollgate::policy::CheckedPolicy;

use crate::record::LogRecord;
use crate::tally::endpoint_index::EndpointIndex;
use crate::tally::to_u32;
use counters::{DecidedBatch, LoggedClient, RuleRefusal, SimulatedDecision};
use counting_thread::CountingThread;
use policy_run::PolicyRun;
pub use report::{
    ACTION_KINDS, ActionCounts, ChangeReport, ChangedClient, EndpointReport, HurtClient, PeakBin, RuleReport,
    SimulationReport,
};

/// A policy, and possibly a second one, that decide the requests of a log in virtual time.
///
/// A log has only what was logged. The address is that of the client, so trusted proxies do not apply. ActionCounters are in
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
    against: Option<PolicyRun>,
    endpoints: EndpointIndex,
    now_ns: u64,
    /// The requests that are decided and not yet counted.
    batch: DecidedBatch,
    /// The endpoints of a batch.
    numbers: Vec<u32>,
    counting: CountingThread,
}

/// The requests that are counted together. What they need fits into the second-level cache of common processors.
const BATCH: usize = 1_024;

impl Simulation {
    /// Prepares the simulation of a policy, and starts a thread that counts.
    ///
    /// # Errors
    /// The policy cannot be compiled, or is too large for a store in memory.
    pub fn new(policy: &CheckedPolicy) -> Result<Simulation, LimiterError> {
        Ok(Simulation {
            run: PolicyRun::new(policy)?,
            against: None,
            endpoints: EndpointIndex::default(),
            now_ns: 0,
            batch: DecidedBatch::default(),
            numbers: Vec::new(),
            counting: CountingThread::start(),
        })
    }

    /// Adds a policy whose decisions are compared with those of the first.
    ///
    /// # Errors
    /// The policy cannot be compiled, or is too large for a store in memory.
    pub fn against(mut self, policy: &CheckedPolicy) -> Result<Simulation, LimiterError> {
        self.against = Some(PolicyRun::new(policy)?);
        Ok(self)
    }

    /// Decides a request, and returns whether it passes. A time before that of the last request is taken as that time.
    pub fn request(&mut self, record: &LogRecord<'_>) -> bool {
        let endpoint = self.endpoints.number(record.method, record.target);
        self.decide(record, endpoint)
    }

    /// Decides requests, as [`request`](Simulation::request), in less time: the endpoints of all are looked up first,
    /// while their table is in the cache.
    pub fn requests(&mut self, records: &[LogRecord<'_>]) {
        let mut endpoints = std::mem::take(&mut self.numbers);
        endpoints.clear();
        endpoints.extend(records.iter().map(|record| self.endpoints.number(record.method, record.target)));
        for (record, endpoint) in records.iter().zip(&endpoints) {
            self.decide(record, *endpoint);
        }
        self.numbers = endpoints;
    }

    fn decide(&mut self, record: &LogRecord<'_>, endpoint: u32) -> bool {
        self.now_ns = self.now_ns.max(record.time_ns);
        let time_ns = self.now_ns;
        let DecidedBatch { requests, refusals } = &mut self.batch;
        let request = to_u32(requests.len());
        let action = self.run.decide(record, time_ns, |rule| {
            refusals.push(RuleRefusal { request, rule, is_other: false });
        });
        let passes_other = self.against.as_mut().map(|other| {
            let refuse = |rule| refusals.push(RuleRefusal { request, rule, is_other: true });
            other.decide(record, time_ns, refuse).is_allowed()
        });
        requests.push(SimulatedDecision { time_ns, client: LoggedClient::of(record), endpoint, action, passes_other });
        if requests.len() >= BATCH {
            self.batch = self.counting.count(std::mem::take(&mut self.batch));
        }
        action.is_allowed()
    }

    /// Returns the result.
    #[must_use]
    pub fn finish(self) -> SimulationReport {
        let Simulation { run, against, endpoints, batch, counting, .. } = self;
        counting.count(batch);
        report::report(&run, against.as_ref(), &endpoints, counting.finish())
    }
}

#[cfg(test)]
mod tests;
