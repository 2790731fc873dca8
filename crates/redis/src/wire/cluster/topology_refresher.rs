use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::resp_value::Value;
use crate::transport::Cause;
use crate::wire::client::Shared;
use crate::wire::cluster::cluster_slots::read_cluster_slots;
use crate::wire::cluster::directory::{SlotMap, SlotRange};
use crate::wire::connection::access::Access;
use crate::wire::connection::address::Address;

/// Whoever has not answered within this is not waited for before the next is asked too.
const NEXT_AFTER: Duration = Duration::from_millis(100);
/// Nobody is asked more often than this, however much goes wrong.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// While an owner cannot be reached, its successor is looked for this often.
const TROUBLED_PAUSE: Duration = Duration::from_millis(200);

/// Finds out who owns what: regularly, and whenever something went wrong.
pub(crate) struct TopologyRefresher {
    query: Arc<Query>,
    seeds: Vec<Address>,
    access: Arc<Access>,
    every: Duration,
}

enum Query {
    /// Asked to sentinels: who is the primary of this name.
    Primary(String),
    /// Asked to nodes of a cluster: who owns which slots.
    Slots,
}

impl TopologyRefresher {
    pub(crate) fn sentinel(
        primary: &str,
        sentinels: Vec<Address>,
        access: Access,
        every: Duration,
    ) -> TopologyRefresher {
        let query = Arc::new(Query::Primary(primary.to_owned()));
        TopologyRefresher { query, seeds: sentinels, access: Arc::new(access), every }
    }

    pub(crate) fn cluster(seeds: Vec<Address>, access: Access, every: Duration) -> TopologyRefresher {
        TopologyRefresher { query: Arc::new(Query::Slots), seeds, access: Arc::new(access), every }
    }

    pub(crate) async fn run(self, shared: Arc<Shared>) {
        loop {
            let asked_at = Instant::now();
            if let Some(map) = self.first_answer(self.candidates(&shared)).await {
                shared.directory.apply(&map);
            }
            let pause = if shared.directory.is_whole() { self.every } else { TROUBLED_PAUSE.min(self.every) };
            // Woken by trouble, or in time: both are a reason to ask.
            let _ = timeout(pause, shared.stale.notified()).await;
            sleep(LEAST_PAUSE.saturating_sub(asked_at.elapsed())).await;
        }
    }

    fn candidates(&self, shared: &Shared) -> Vec<Address> {
        let mut candidates = match *self.query {
            Query::Slots => shared.directory.known(),
            Query::Primary(_) => Vec::new(),
        };
        for seed in &self.seeds {
            if !candidates.contains(seed) {
                candidates.push(seed.clone());
            }
        }
        candidates
    }

    /// Asks one after the other, without waiting long for any, until one has answered.
    async fn first_answer(&self, candidates: Vec<Address>) -> Option<SlotMap> {
        let mut candidates = candidates.into_iter();
        let mut asked = JoinSet::new();
        loop {
            if let Some(address) = candidates.next() {
                let (query, access) = (Arc::clone(&self.query), Arc::clone(&self.access));
                asked.spawn(async move { query.ask(&access, &address).await });
            } else if asked.is_empty() {
                return None;
            }
            let wait = if candidates.len() > 0 { NEXT_AFTER } else { self.access.timeout };
            // Who refuses, makes no sense or has not answered yet is left for the next one.
            if let Ok(Some(Ok(Ok(map)))) = timeout(wait, asked.join_next()).await {
                return Some(map);
            }
        }
    }
}

impl Query {
    async fn ask(&self, access: &Access, address: &Address) -> Result<SlotMap, Cause> {
        match self {
            Query::Slots => {
                let answer = access.ask(address, &[b"CLUSTER", b"SLOTS"]).await?;
                read_cluster_slots(&answer, address).ok_or(Cause::Protocol)
            }
            Query::Primary(name) => {
                let command: [&[u8]; 3] = [b"SENTINEL", b"get-master-addr-by-name", name.as_bytes()];
                let owner = read_primary(&access.ask(address, &command).await?).ok_or(Cause::Unavailable)?;
                Ok(SlotMap { ranges: vec![SlotRange { first: 0, last: 0, owner }] })
            }
        }
    }
}

/// Reads the host and the port that a sentinel gives.
fn read_primary(answer: &Value) -> Option<Address> {
    let Value::Array(Some(fields)) = answer else { return None };
    let [Value::Bulk(Some(host)), Value::Bulk(Some(port))] = fields.as_slice() else { return None };
    let port = str::from_utf8(port).ok()?.parse().ok()?;
    Some(Address { host: str::from_utf8(host).ok()?.into(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_answer_of_a_sentinel() {
        let text = |text: &str| Value::Bulk(Some(text.as_bytes().to_vec()));
        let answer = Value::Array(Some(vec![text("10.0.0.1"), text("6379")]));
        assert_eq!(read_primary(&answer), Address::parse("10.0.0.1:6379"));
        assert_eq!(read_primary(&Value::Array(None)), None);
        assert_eq!(read_primary(&Value::Array(Some(vec![text("10.0.0.1"), text("many")]))), None);
    }
}
