use std::collections::HashMap;
use std::sync::Arc;

use super::frequent_clients::FrequentClients;

/// A client that often reached a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrequentClient {
    /// The client ID in logs and events.
    pub client: Arc<str>,
    /// The upper bound of the count.
    pub count: u64,
    /// The uncertainty: `count - error` is the lower bound.
    pub error: u64,
    /// When it was last counted, in nanoseconds since 1970.
    pub last_seen_ns: u64,
}

/// The sum of several tables of one rule. The bounds add up: a client missing in a table has at most its floor there.
#[derive(Debug, Default)]
pub(in crate::observe) struct ClientTally {
    clients: HashMap<u64, ClientTotals>,
    floors: u64,
    total: u64,
}

/// The counts of a client in the tables that track it.
#[derive(Debug, Default)]
pub(in crate::observe) struct ClientTotals {
    /// Counts above the floors of these tables.
    above: u64,
    /// The certain part of these floors.
    certain: u64,
    last_seen_ns: u64,
    pub(in crate::observe) name: Option<Arc<str>>,
}

impl ClientTotals {
    /// Returns the lower bound of the count.
    pub(in crate::observe) fn lower_bound(&self) -> u64 {
        self.above + self.certain
    }
}

impl ClientTally {
    pub(in crate::observe) fn add(&mut self, table: &FrequentClients) {
        self.floors += table.floor();
        self.total += table.total();
        for tracked in table.tracked() {
            let known = self.clients.entry(tracked.fingerprint).or_default();
            known.above += tracked.count - table.floor();
            known.certain += table.floor() - tracked.error;
            known.last_seen_ns = known.last_seen_ns.max(tracked.last_seen_ns);
            known.name = known.name.take().or_else(|| tracked.name.clone());
        }
    }

    /// Returns the total count.
    pub(in crate::observe) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the tracked clients by fingerprint.
    pub(in crate::observe) fn clients(&self) -> impl Iterator<Item = (u64, &ClientTotals)> {
        self.clients.iter().map(|(fingerprint, known)| (*fingerprint, known))
    }

    /// Returns the most frequent clients by lower bound. A client without an ID occurred too rarely to get one.
    pub(in crate::observe) fn top(&self, max: usize) -> Vec<FrequentClient> {
        let named = self.clients.values().filter_map(|known| {
            Some(FrequentClient {
                client: Arc::clone(known.name.as_ref()?),
                count: self.floors + known.above,
                error: self.floors - known.certain,
                last_seen_ns: known.last_seen_ns,
            })
        });
        let mut top: Vec<FrequentClient> = named.collect();
        top.sort_by(|one, other| {
            let order = |client: &FrequentClient| (client.count - client.error, client.count);
            order(other).cmp(&order(one)).then_with(|| one.client.cmp(&other.client))
        });
        top.truncate(max);
        top
    }

    /// Returns the lower bound of the most frequent client.
    pub(in crate::observe) fn largest(&self) -> u64 {
        self.clients.values().map(ClientTotals::lower_bound).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The bounds hold for any distribution of the stream over the tables.
        #[test]
        fn true_count_is_within_the_error_of_the_sum(
            stream in prop::collection::vec((1_u64..300, 0_usize..4), 0..3_000),
            heavy in prop::collection::vec((1_u64..5, 0_usize..4), 0..1_000),
        ) {
            let mut tables = vec![FrequentClients::new(16); 4];
            let mut exact: HashMap<u64, u64> = HashMap::new();
            for (client, table) in stream.iter().chain(&heavy) {
                let fingerprint = client.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let (_, tracked) = tables[*table].count(fingerprint, 1, 1);
                tracked.name = Some(client.to_string().into());
                *exact.entry(fingerprint).or_default() += 1;
            }
            let mut tally = ClientTally::default();
            tables.iter().for_each(|table| tally.add(table));
            prop_assert_eq!(tally.total(), exact.values().sum::<u64>());
            for (fingerprint, known) in tally.clients() {
                let actual = exact.remove(&fingerprint).unwrap_or(0);
                prop_assert!(known.lower_bound() <= actual && actual <= tally.floors + known.above);
            }
            for actual in exact.values() {
                prop_assert!(*actual <= tally.floors);
            }
            prop_assert!(tally.top(5).len() <= 5);
        }
    }
}
