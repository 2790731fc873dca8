use std::collections::HashMap;
use std::sync::Arc;

use super::frequent_clients::FrequentClients;

/// A client that met a limit often.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrequentClient {
    /// What the client is called in logs and events, as the settings want it.
    pub client: Arc<str>,
    /// The most that it can have been.
    pub count: u64,
    /// By how much less it may have been: `count - error` is certain.
    pub error: u64,
    /// When it was last counted, in nanoseconds since 1970.
    pub last_seen_ns: u64,
}

/// Several tables about the same rule, taken together. The sum of what each
/// says is as true as each: who is missing in one has at most its floor there.
#[derive(Debug, Default)]
pub(in crate::observe) struct Tally {
    clients: HashMap<u64, Known>,
    floors: u64,
    total: u64,
}

/// What the tables that know a client say of it.
#[derive(Debug, Default)]
pub(in crate::observe) struct Known {
    /// Above the floors of these tables.
    above: u64,
    /// The part of these floors that is certain.
    certain: u64,
    last_seen_ns: u64,
    pub(in crate::observe) name: Option<Arc<str>>,
}

impl Known {
    /// How often the client certainly came.
    pub(in crate::observe) fn at_least(&self) -> u64 {
        self.above + self.certain
    }
}

impl Tally {
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

    /// How many were counted, whoever they were.
    pub(in crate::observe) fn total(&self) -> u64 {
        self.total
    }

    /// Everybody who is known, by fingerprint.
    pub(in crate::observe) fn clients(&self) -> impl Iterator<Item = (u64, &Known)> {
        self.clients.iter().map(|(fingerprint, known)| (*fingerprint, known))
    }

    /// The most frequent ones, beginning with who has certainly come most
    /// often. Who has no name yet came too rarely to be given one.
    pub(in crate::observe) fn top(&self, at_most: usize) -> Vec<FrequentClient> {
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
        top.truncate(at_most);
        top
    }

    /// The certain count of the most frequent client.
    pub(in crate::observe) fn largest(&self) -> u64 {
        self.clients.values().map(Known::at_least).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However a stream is spread over tables, the sum keeps its promise.
        #[test]
        fn the_error_of_a_sum_is_what_it_says(
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
            let mut tally = Tally::default();
            tables.iter().for_each(|table| tally.add(table));
            prop_assert_eq!(tally.total(), exact.values().sum::<u64>());
            for (fingerprint, known) in tally.clients() {
                let truth = exact.remove(&fingerprint).unwrap_or(0);
                prop_assert!(known.at_least() <= truth && truth <= tally.floors + known.above);
            }
            for truth in exact.values() {
                prop_assert!(*truth <= tally.floors);
            }
            prop_assert!(tally.top(5).len() <= 5);
        }
    }
}
