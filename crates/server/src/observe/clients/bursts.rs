use std::collections::HashMap;
use std::sync::Arc;

use super::tally::ClientTally;

/// How many windows a client must be known before a burst can be detected.
const WINDOWS_BEFORE: u64 = 6;

/// The factor above the average that is a burst.
const TIMES_USUAL: u64 = 8;

/// The minimum of requests in a burst: in a sample of one in 16, fewer could be chance.
pub(in crate::observe) const MIN_BURST_REQUESTS: u64 = 320;

/// A window has a weight of 1/8 in the average, so one from 90 seconds ago counts for a third.
const WEIGHT_OF_WINDOW: u64 = 8;

/// Averages have this many parts of a request.
const PARTS: u64 = 256;

/// The maximum number of clients with a history, over all rules.
const MAX_CLIENTS: usize = 4_096;

/// Request averages of clients, to detect bursts.
///
/// A burst is a window of 10 seconds in which a client sent at least 8 times its own average and at least 320
/// requests, after it was known for a minute. It ends when a window has less than half of that.
#[derive(Debug, Default)]
pub(in crate::observe) struct Bursts {
    histories: HashMap<(Arc<str>, u64), ClientHistory>,
    /// The number of processed windows.
    windows: u64,
}

#[derive(Debug)]
struct ClientHistory {
    first: u64,
    last: u64,
    average_parts: u64,
    is_bursting: bool,
}

/// A client that sends far more requests than before.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::observe) struct DetectedBurst {
    pub(in crate::observe) rule: Arc<str>,
    pub(in crate::observe) name: Arc<str>,
    pub(in crate::observe) requests: u64,
    pub(in crate::observe) usual: u64,
}

impl Bursts {
    /// Processes the requests of the next window.
    pub(in crate::observe) fn process(&mut self, traffic: &HashMap<Arc<str>, ClientTally>) -> Vec<DetectedBurst> {
        self.windows += 1;
        let now = self.windows;
        let mut bursts = Vec::new();
        for (rule, tally) in traffic {
            for (fingerprint, known) in tally.clients() {
                // Only the lower bound: the error may belong to other clients.
                let requests = known.lower_bound();
                let client = (Arc::clone(rule), fingerprint);
                let is_full = self.histories.len() >= MAX_CLIENTS;
                let Some(history) = self.histories.get_mut(&client) else {
                    if !is_full {
                        self.histories.insert(client, ClientHistory::new(now, requests));
                    }
                    continue;
                };
                let usual = history.usual_parts(now);
                if history.add(now, usual, requests)
                    && let Some(name) = &known.name
                {
                    let (rule, name) = (Arc::clone(rule), Arc::clone(name));
                    bursts.push(DetectedBurst { rule, name, requests, usual: usual / PARTS });
                }
            }
        }
        // Inactive clients are removed when their average is nearly 0.
        self.histories.retain(|_, history| history.usual_parts(now + 1) >= PARTS);
        bursts
    }

    pub(in crate::observe) fn clear(&mut self) {
        self.histories.clear();
    }
}

impl ClientHistory {
    fn new(now: u64, requests: u64) -> ClientHistory {
        ClientHistory { first: now, last: now, average_parts: requests.saturating_mul(PARTS), is_bursting: false }
    }

    /// Returns the average before this window. Windows since the last count as 0.
    fn usual_parts(&self, now: u64) -> u64 {
        let inactive = now.saturating_sub(self.last + 1);
        (0..inactive.min(128)).fold(self.average_parts, |average, _| average - average.div_ceil(WEIGHT_OF_WINDOW))
    }

    /// Adds a window. `true` if a burst begins with it.
    fn add(&mut self, now: u64, usual_parts: u64, requests: u64) -> bool {
        let parts = requests.saturating_mul(PARTS);
        let is_known = now - self.first >= WINDOWS_BEFORE;
        let is_burst = |times: u64| requests >= MIN_BURST_REQUESTS && parts >= usual_parts.saturating_mul(times);
        let begins = is_known && !self.is_bursting && is_burst(TIMES_USUAL);
        self.is_bursting = begins || self.is_bursting && is_burst(TIMES_USUAL / 2);
        self.average_parts = usual_parts - usual_parts / WEIGHT_OF_WINDOW + parts / WEIGHT_OF_WINDOW;
        self.last = now;
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::clients::frequent_clients::FrequentClients;

    fn window(clients: &[(u64, u64)]) -> HashMap<Arc<str>, ClientTally> {
        let mut table = FrequentClients::new(128);
        for (client, requests) in clients {
            table.count(*client, *requests, 1).1.name = Some(client.to_string().into());
        }
        let mut tally = ClientTally::default();
        tally.add(&table);
        HashMap::from([("per-ip".into(), tally)])
    }

    #[test]
    fn client_far_above_its_own_average_is_reported_once() {
        let mut bursts = Bursts::default();
        for _ in 0..10 {
            assert_eq!(bursts.process(&window(&[(1, 160), (2, 10_000)])), []);
        }
        // The other client always had more requests.
        let detected = bursts.process(&window(&[(1, 3_200), (2, 12_000)]));
        assert_eq!(detected, [DetectedBurst { rule: "per-ip".into(), name: "1".into(), requests: 3_200, usual: 160 }]);
        assert_eq!(bursts.process(&window(&[(1, 4_800)])), []);
    }

    #[test]
    fn clients_without_history_are_never_reported() {
        let mut bursts = Bursts::default();
        assert_eq!(bursts.process(&window(&[(1, 16)])), []);
        assert_eq!(bursts.process(&window(&[(1, 100_000)])), []);
    }

    #[test]
    fn small_or_gradual_growth_is_not_a_burst() {
        let mut bursts = Bursts::default();
        for _ in 0..10 {
            bursts.process(&window(&[(1, 16), (2, 1_000)]));
        }
        for round in 1..20 {
            assert_eq!(bursts.process(&window(&[(1, 300), (2, 1_000 * round)])), []);
        }
    }

    #[test]
    fn average_decays_while_a_client_is_inactive() {
        let mut bursts = Bursts::default();
        for _ in 0..10 {
            bursts.process(&window(&[(1, 1_000)]));
        }
        (0..16).for_each(|_| drop(bursts.process(&window(&[]))));
        let detected = bursts.process(&window(&[(1, 1_000)]));
        assert!((80..=125).contains(&detected[0].usual), "{detected:?}");
    }

    #[test]
    fn memory_is_bounded_and_released() {
        let mut bursts = Bursts::default();
        for round in 0..200 {
            let clients: Vec<(u64, u64)> = (0..100).map(|client| (round * 1_000 + client + 1, 16)).collect();
            bursts.process(&window(&clients));
            assert!(bursts.histories.len() <= MAX_CLIENTS);
        }
        (0..100).for_each(|_| drop(bursts.process(&window(&[]))));
        assert_eq!(bursts.histories.len(), 0);
    }
}
