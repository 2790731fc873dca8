//! Limits that the traffic of a log supports, and a policy with them.
//!
//! The log is read once into a trace of numbers, which is then replayed: for the figures of each client, for the
//! smallest bucket that would have let it through at several rates, and for the requests that the proposed limits
//! refuse.

mod burst_ladder;
mod client_class;
mod endpoint_class;
mod options;
mod outliers;
mod policy_text;
mod proposal;
mod report;
mod served_limit;
mod trace;

use std::io;

use crate::record::LogRecord;
use crate::tally::client_index::ClientIndex;
use crate::tally::endpoint_index::EndpointIndex;
pub use endpoint_class::EndpointClass;
use endpoint_class::EndpointTally;
pub use options::{CalibrationKey, CalibrationOptions};
pub use outliers::OUTLIER_GAP;
pub use policy_text::policy_text;
pub use report::{Calibration, LimitProposal, Outlier, OutlierKind, TouchedTraffic, TrafficEvidence};
pub use served_limit::{MIN_DECISIONS, ServedFinding, ServedRule};
use trace::TraceWriter;

/// Reads the requests of a log, in the order of time, and proposes limits.
///
/// Its memory grows with the clients and endpoints. The trace of the requests, some six bytes each, is in a temporary
/// file beyond 64 MiB.
pub struct Calibrator {
    options: CalibrationOptions,
    clients: Vec<ClientIndex>,
    endpoints: EndpointIndex,
    endpoint_tallies: Vec<EndpointTally>,
    trace: TraceWriter,
    /// The clients of a batch of requests, by key.
    numbers: Vec<Vec<Option<u32>>>,
    /// Their endpoints.
    batch_endpoints: Vec<u32>,
    requests: u64,
    first_ns: u64,
    last_ns: u64,
    /// The first error of the temporary file, after which nothing is counted.
    error: Option<io::Error>,
}

impl Calibrator {
    /// Starts a calibration.
    #[must_use]
    pub fn new(options: CalibrationOptions) -> Calibrator {
        Calibrator {
            clients: options.keys.iter().map(|_| ClientIndex::default()).collect(),
            numbers: vec![Vec::new(); options.keys.len()],
            options,
            batch_endpoints: Vec::new(),
            endpoints: EndpointIndex::default(),
            endpoint_tallies: Vec::new(),
            trace: TraceWriter::new(),
            requests: 0,
            first_ns: u64::MAX,
            last_ns: 0,
            error: None,
        }
    }

    /// Counts requests. An error of the temporary file is returned by [`finish`](Calibrator::finish).
    pub fn requests(&mut self, records: &[LogRecord<'_>]) {
        if self.error.is_some() {
            return;
        }
        // All clients of a key are looked up first, so that the processor waits for several of them at once, and all
        // endpoints, whose table stays in the cache.
        for ((key, clients), numbers) in self.options.keys.iter().zip(&mut self.clients).zip(&mut self.numbers) {
            numbers.clear();
            numbers.extend(records.iter().map(|record| key.client(record, clients)));
        }
        self.batch_endpoints.clear();
        let endpoints = records.iter().map(|record| self.endpoints.number(record.method, record.target));
        self.batch_endpoints.extend(endpoints);
        for (at, record) in records.iter().enumerate() {
            self.request(at, record);
        }
    }

    /// Counts the request at a position of its batch.
    fn request(&mut self, at: usize, record: &LogRecord<'_>) {
        let endpoint = self.batch_endpoints[at];
        let is_denied = matches!(record.status, Some(401 | 403));
        if endpoint as usize >= self.endpoint_tallies.len() {
            self.endpoint_tallies.resize(endpoint as usize + 1, EndpointTally::default());
        }
        let tally = &mut self.endpoint_tallies[endpoint as usize];
        tally.requests += 1;
        tally.denied += u64::from(is_denied);
        self.requests += 1;
        self.first_ns = self.first_ns.min(record.time_ns);
        self.last_ns = self.last_ns.max(record.time_ns);
        let clients = self.numbers.iter().map(|numbers| numbers[at]);
        if let Err(error) = self.trace.push(record.time_ns, endpoint, is_denied, clients) {
            self.error.get_or_insert(error);
        }
    }

    /// Proposes limits.
    ///
    /// # Errors
    /// The temporary file could not be written or read.
    pub fn finish(self) -> io::Result<Calibration> {
        match self.error {
            Some(error) => Err(error),
            None => proposal::propose(self),
        }
    }
}

#[cfg(test)]
mod tests;
