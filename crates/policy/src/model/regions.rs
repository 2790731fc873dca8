use tollgate_core::RegionShare;

use super::{RedisTopology, Secret};

const MS_NS: u64 = 1_000_000;

/// The default length of an epoch.
const DEFAULT_SYNC_NS: u64 = 10_000 * MS_NS;
/// The shortest epoch. The regions must report to the global server within a part of it.
pub(crate) const MIN_SYNC_NS: u64 = 1_000 * MS_NS;
/// The longest epoch. Rates follow demand one epoch late.
pub(crate) const MAX_SYNC_NS: u64 = 600_000 * MS_NS;
/// The fewest regions that can divide a limit.
pub(crate) const MIN_REGIONS: u64 = 2;
/// The most regions. The global server compares the reports of all of them for each key.
pub(crate) const MAX_REGIONS: u64 = 64;
/// The largest weight.
pub(crate) const MAX_WEIGHT: u32 = 1_000_000;

/// The regions that divide the limits of regional rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Regions {
    /// The region of this instance; `None` if the policy leaves it to the service, so that all regions can use one file.
    pub own: Option<String>,
    /// The regions with their weights. A region's share of a limit is its weight divided by the sum.
    pub weights: Vec<(String, u32)>,
    /// The length of an epoch, in whole milliseconds. Rates are lent for one epoch.
    pub sync_ns: u64,
    /// The server that all regions report to.
    pub global: GlobalServer,
}

/// The connection to the server that all regions report to. It stores no counters.
#[derive(Clone, Debug, PartialEq)]
pub struct GlobalServer {
    /// The nodes, each as `host:port`.
    pub nodes: Vec<String>,
    /// The topology of the nodes.
    pub mode: RedisTopology,
    /// The prefix of all keys.
    pub prefix: String,
    /// The number of the database.
    pub database: u32,
    /// The user name (Redis ACL).
    pub username: Option<String>,
    /// The source of the password.
    pub password: Option<Secret>,
    /// Whether connections use TLS.
    pub tls: bool,
    /// The file with the certificates of the trusted authorities (CA); `None` for those of the system.
    pub tls_ca: Option<String>,
    /// The name of the primary that the sentinels monitor.
    pub sentinel_primary: Option<String>,
}

impl GlobalServer {
    /// Creates settings with these nodes and the defaults for all else.
    #[must_use]
    pub fn at(nodes: Vec<String>) -> GlobalServer {
        GlobalServer {
            nodes,
            mode: RedisTopology::default(),
            prefix: "tollgate:".to_owned(),
            database: 0,
            username: None,
            password: None,
            tls: false,
            tls_ca: None,
            sentinel_primary: None,
        }
    }
}

impl Regions {
    /// Creates regions with these weights and the default epoch.
    #[must_use]
    pub fn new(weights: Vec<(String, u32)>, global: GlobalServer) -> Regions {
        Regions { own: None, weights, sync_ns: DEFAULT_SYNC_NS, global }
    }

    /// Returns the names of the regions, in the order of the policy.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.weights.iter().map(|(name, _)| name.as_str())
    }

    /// Returns each region with its share of a limit.
    pub fn shares(&self) -> impl Iterator<Item = (&str, RegionShare)> {
        let total = self.total_weight();
        self.weights.iter().map(move |(name, weight)| (name.as_str(), RegionShare::new(*weight, total)))
    }

    /// Returns the share of a region; `None` if there is no such region.
    #[must_use]
    pub fn share(&self, region: &str) -> Option<RegionShare> {
        self.shares().find(|(name, _)| *name == region).map(|(_, share)| share)
    }

    /// Returns the share of this instance's region; `None` if the region is not set.
    #[must_use]
    pub fn own_share(&self) -> Option<RegionShare> {
        self.share(self.own.as_deref()?)
    }

    /// Returns the smallest share. A limit that can be divided has at least one token there.
    pub(crate) fn smallest_share(&self) -> Option<RegionShare> {
        let (name, _) = self.weights.iter().min_by_key(|(_, weight)| *weight)?;
        self.share(name)
    }

    /// The sum of all weights: at most 64 times 1,000,000 in a checked policy.
    #[must_use]
    pub fn total_weight(&self) -> u32 {
        self.weights.iter().fold(0, |total: u32, (_, weight)| total.saturating_add(*weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_weights() {
        let weights = [("eu", 50), ("us", 30), ("ap", 20)].map(|(name, weight)| (name.to_owned(), weight));
        let mut regions = Regions::new(weights.to_vec(), GlobalServer::at(vec!["g:6379".to_owned()]));
        let rates: Vec<(&str, u32)> = regions.shares().map(|(name, share)| (name, share.rate)).collect();
        assert_eq!(rates, [("eu", 500), ("us", 300), ("ap", 200)]);
        assert_eq!((regions.own_share(), regions.share("sa")), (None, None));
        regions.own = Some("ap".to_owned());
        assert_eq!(regions.own_share(), Some(RegionShare::new(20, 100)));
    }
}
