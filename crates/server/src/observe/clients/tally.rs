use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
#[derive(Debug)]
struct Known {
    /// Above the floors of these tables.
    above: u64,
    /// The part of these floors that is certain.
    certain: u64,
    last_seen_ns: u64,
    name: Option<Arc<str>>,
}

/// A client without a name.
pub(in crate::observe) struct Counted<'a> {
    pub(in crate::observe) fingerprint: u64,
    pub(in crate::observe) count: u64,
    pub(in crate::observe) error: u64,
    pub(in crate::observe) last_seen_ns: u64,
    pub(in crate::observe) name: Option<&'a Arc<str>>,
}

impl Tally {
    pub(in crate::observe) fn add(&mut self, table: &FrequentClients) {
        self.floors += table.floor();
        self.total += table.total();
        for tracked in table.tracked() {
            let above = tracked.count - table.floor();
            let certain = table.floor() - tracked.error;
            match self.clients.entry(tracked.fingerprint) {
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    known.above += above;
                    known.certain += certain;
                    known.last_seen_ns = known.last_seen_ns.max(tracked.last_seen_ns);
                    known.name = known.name.take().or_else(|| tracked.name.clone());
                }
                Entry::Vacant(nobody) => {
                    let (last_seen_ns, name) = (tracked.last_seen_ns, tracked.name.clone());
                    nobody.insert(Known { above, certain, last_seen_ns, name });
                }
            }
        }
    }

    /// How many were counted, whoever they were.
    pub(in crate::observe) fn total(&self) -> u64 {
        self.total
    }

    pub(in crate::observe) fn counted(&self) -> impl Iterator<Item = Counted<'_>> {
        self.clients.iter().map(|(fingerprint, known)| Counted {
            fingerprint: *fingerprint,
            count: self.floors + known.above,
            error: self.floors - known.certain,
            last_seen_ns: known.last_seen_ns,
            name: known.name.as_ref(),
        })
    }

    /// The most frequent ones, beginning with who has certainly come most
    /// often. Who has no name yet came too rarely to be given one.
    pub(in crate::observe) fn top(&self, at_most: usize) -> Vec<FrequentClient> {
        let named = self.counted().filter_map(|counted| {
            let Counted { count, error, last_seen_ns, .. } = counted;
            Some(FrequentClient { client: Arc::clone(counted.name?), count, error, last_seen_ns })
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
        self.counted().map(|counted| counted.count - counted.error).max().unwrap_or(0)
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
            for counted in tally.counted() {
                let truth = exact.remove(&counted.fingerprint).unwrap_or(0);
                prop_assert!(counted.count - counted.error <= truth && truth <= counted.count);
            }
            for truth in exact.values() {
                prop_assert!(*truth <= tally.floors);
            }
            prop_assert!(tally.top(5).len() <= 5);
        }
    }
}
