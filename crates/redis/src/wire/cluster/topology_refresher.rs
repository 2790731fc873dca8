use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::resp_value::Value;
use crate::transport::Cause;
use crate::wire::client::Shared;
use crate::wire::cluster::cluster_slots::parse_cluster_slots;
use crate::wire::cluster::directory::{SlotMap, SlotRange};
use crate::wire::connection::address::Address;
use crate::wire::connection::connect_params::ConnectParams;

/// If a server has not replied within this, the next one is queried too.
const NEXT_QUERY_AFTER: Duration = Duration::from_millis(100);
/// The minimum interval between two refreshes, even if calls fail continuously.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
/// The interval of refreshes while an owner is unreachable and may be replaced.
const FAILURE_INTERVAL: Duration = Duration::from_millis(200);

/// Reads the owners of slots from the servers: periodically, and after every failure.
pub(crate) struct TopologyRefresher {
    query: Arc<Query>,
    seeds: Vec<Address>,
    connect: Arc<ConnectParams>,
    interval: Duration,
}

enum Query {
    /// Queries sentinels for the primary of this name.
    Primary(String),
    /// Queries nodes of a cluster for the owners of slots.
    Slots,
}

impl TopologyRefresher {
    pub(crate) fn sentinel(
        primary: &str,
        sentinels: Vec<Address>,
        connect: ConnectParams,
        interval: Duration,
    ) -> TopologyRefresher {
        let query = Arc::new(Query::Primary(primary.to_owned()));
        TopologyRefresher { query, seeds: sentinels, connect: Arc::new(connect), interval }
    }

    pub(crate) fn cluster(seeds: Vec<Address>, connect: ConnectParams, interval: Duration) -> TopologyRefresher {
        TopologyRefresher { query: Arc::new(Query::Slots), seeds, connect: Arc::new(connect), interval }
    }

    pub(crate) async fn run(self, shared: Arc<Shared>) {
        loop {
            let begun = Instant::now();
            if let Some(map) = self.first_reply(self.candidates(&shared)).await {
                shared.directory.apply(&map);
            }
            let is_connected = shared.directory.is_fully_connected();
            let pause = if is_connected { self.interval } else { FAILURE_INTERVAL.min(self.interval) };
            // Both a notification and the timeout lead to a refresh.
            let _ = timeout(pause, shared.stale.notified()).await;
            sleep(MIN_INTERVAL.saturating_sub(begun.elapsed())).await;
        }
    }

    /// Returns the servers to query: for a cluster the known owners, then the seeds.
    fn candidates(&self, shared: &Shared) -> Vec<Address> {
        let mut candidates = match *self.query {
            Query::Slots => shared.directory.addresses(),
            Query::Primary(_) => Vec::new(),
        };
        for seed in &self.seeds {
            if !candidates.contains(seed) {
                candidates.push(seed.clone());
            }
        }
        candidates
    }

    /// Queries the candidates one after the other, without waiting long for each, until one has replied.
    async fn first_reply(&self, candidates: Vec<Address>) -> Option<SlotMap> {
        let mut candidates = candidates.into_iter();
        let mut queries = JoinSet::new();
        loop {
            if let Some(address) = candidates.next() {
                let (query, connect) = (Arc::clone(&self.query), Arc::clone(&self.connect));
                queries.spawn(async move { query.send(&connect, &address).await });
            } else if queries.is_empty() {
                return None;
            }
            let wait = if candidates.len() > 0 { NEXT_QUERY_AFTER } else { self.connect.timeout };
            // After an error, a malformed reply or no reply yet, the next candidate is queried.
            if let Ok(Some(Ok(Ok(map)))) = timeout(wait, queries.join_next()).await {
                return Some(map);
            }
        }
    }
}

impl Query {
    async fn send(&self, connect: &ConnectParams, address: &Address) -> Result<SlotMap, Cause> {
        match self {
            Query::Slots => {
                let reply = connect.query(address, &[b"CLUSTER", b"SLOTS"]).await?;
                parse_cluster_slots(&reply, address).ok_or(Cause::Protocol)
            }
            Query::Primary(name) => {
                let command: [&[u8]; 3] = [b"SENTINEL", b"get-master-addr-by-name", name.as_bytes()];
                let owner = parse_primary(&connect.query(address, &command).await?).ok_or(Cause::Unavailable)?;
                Ok(SlotMap { ranges: vec![SlotRange { first: 0, last: 0, owner }] })
            }
        }
    }
}

/// Parses the host and port of a primary from the reply of a sentinel.
fn parse_primary(reply: &Value) -> Option<Address> {
    let Value::Array(Some(fields)) = reply else { return None };
    let [Value::Bulk(Some(host)), Value::Bulk(Some(port))] = fields.as_slice() else { return None };
    let port = str::from_utf8(port).ok()?.parse().ok()?;
    Some(Address { host: str::from_utf8(host).ok()?.into(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_is_parsed_from_the_reply_of_a_sentinel() {
        let text = |text: &str| Value::Bulk(Some(text.as_bytes().to_vec()));
        let reply = Value::Array(Some(vec![text("10.0.0.1"), text("6379")]));
        assert_eq!(parse_primary(&reply), Address::parse("10.0.0.1:6379"));
        assert_eq!(parse_primary(&Value::Array(None)), None);
        assert_eq!(parse_primary(&Value::Array(Some(vec![text("10.0.0.1"), text("many")]))), None);
    }
}
