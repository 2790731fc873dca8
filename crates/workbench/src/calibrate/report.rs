//! The result of a calibration.

use tollgate::Rate;

use super::endpoint_class::EndpointClass;
use crate::tally::client_index::ClientName;
use crate::tally::endpoint_index::EndpointName;
use crate::tally::peak_rates::Peaks;
use crate::tally::quantiles::Quantiles;

/// Limits that the traffic of a log supports.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The number of requests.
    pub requests: u64,
    /// The number of clients of each key, with the name of the key.
    pub clients: Vec<(String, u64)>,
    /// The time of the first request, in nanoseconds since 1970.
    pub first_ns: u64,
    /// The time of the last request.
    pub last_ns: u64,
    /// The share of the well-behaved clients that must never be refused, in parts per million.
    pub share_ppm: u32,
    /// How much above the observed need a limit is, in percent.
    pub margin_percent: u32,
    /// The keys that a policy must declare, with the names of their identities.
    pub declared_keys: Vec<String>,
    /// The endpoints that authenticate.
    pub auth_endpoints: Vec<EndpointName>,
    /// The proposed limits, by key and class.
    pub proposals: Vec<LimitProposal>,
    /// The clients that stand out, those with the most requests first.
    pub outliers: Vec<Outlier>,
}

/// A limit for the clients of a key in a class of endpoints.
#[derive(Clone, Debug)]
pub struct LimitProposal {
    /// The name of the key.
    pub key: String,
    /// The class.
    pub class: EndpointClass,
    /// The limit, with its burst.
    pub rate: Rate,
    /// The figures from which it follows.
    pub evidence: TrafficEvidence,
    /// What the limit would have refused.
    pub touched: TouchedTraffic,
}

/// What was observed of the well-behaved clients of a key in a class.
#[derive(Clone, Debug)]
pub struct TrafficEvidence {
    /// The well-behaved clients.
    pub clients: u64,
    /// Their requests.
    pub requests: u64,
    /// The clients that stand out.
    pub outliers: u64,
    /// Their requests.
    pub outlier_requests: u64,
    /// The peaks in a second of the clock.
    pub per_second: Quantiles,
    /// The peaks in a minute of the clock.
    pub per_minute: Quantiles,
    /// The peaks in an hour of the clock.
    pub per_hour: Quantiles,
    /// The mean rates of clients that were active for ten minutes or more, in requests an hour.
    pub sustained_per_hour: Quantiles,
    /// The needed rate: its count.
    pub needed_count: u64,
    /// The period of the rate, in nanoseconds.
    pub period_ns: u64,
    /// The bursts of the smallest buckets that would have let the clients through at the needed rate.
    pub burst: Quantiles,
    /// The burst that the stated share of the clients does not exceed.
    pub needed_burst: u64,
}

/// What a limit would have refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TouchedTraffic {
    /// The well-behaved clients with refused requests.
    pub clients: u64,
    /// The refused requests of well-behaved clients.
    pub requests: u64,
    /// The outliers with refused requests.
    pub outliers: u64,
    /// The refused requests of outliers.
    pub outlier_requests: u64,
}

/// A client that stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlier {
    /// The name of the key.
    pub key: String,
    /// The client.
    pub client: ClientName,
    /// What it looks like.
    pub kind: OutlierKind,
    /// The class in which it stands out most.
    pub class: EndpointClass,
    /// Its requests in that class.
    pub requests: u64,
    /// Those that were answered by 401 or 403.
    pub denied: u64,
    /// Its peaks in that class.
    pub peaks: Peaks,
    /// The requests in that class that the proposed limit would have refused.
    pub refused: u64,
}

/// What a client that stands out looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutlierKind {
    /// It tries secrets, most of them wrong.
    CredentialStuffer,
    /// It reads far more than others.
    Scraper,
    /// It sends far more of other requests than others.
    HeavyClient,
}

impl OutlierKind {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            OutlierKind::CredentialStuffer => "credential stuffer",
            OutlierKind::Scraper => "scraper",
            OutlierKind::HeavyClient => "heavy client",
        }
    }
}

impl TouchedTraffic {
    /// Returns all clients with refused requests.
    #[must_use]
    pub fn all_clients(&self) -> u64 {
        self.clients + self.outliers
    }

    /// Returns all refused requests.
    #[must_use]
    pub fn all_requests(&self) -> u64 {
        self.requests + self.outlier_requests
    }
}
