use std::collections::HashMap;
use std::sync::Arc;

use super::tally::Tally;

/// How many windows a client must be known for before anything of it can be called sudden.
const WINDOWS_BEFORE: u64 = 6;

/// How many times as much as usual is a burst.
const TIMES_USUAL: u64 = 8;

/// Fewer requests in a window are none, whatever is usual: from a sample of
/// one in 16 they could not be told from chance.
pub(in crate::observe) const MIN_BURST_REQUESTS: u64 = 320;

/// A window counts for a 1/8 of what is usual, so that a minute and a half ago counts for a third.
const WEIGHT_OF_WINDOW: u64 = 8;

/// Averages are kept in so many parts of a request.
const PARTS: u64 = 256;

/// The most clients whose past is known, of all rules together.
const MAX_CLIENTS: usize = 4_096;

/// What clients used to ask, and whether they suddenly ask far more.
///
/// A burst is a window of 10 seconds in which a client asked at least 8 times
/// as often as its own average, and at least 320 times, after it had been known
/// for a minute. It is over when a window has less than half of that.
#[derive(Debug, Default)]
pub(in crate::observe) struct Bursts {
    pasts: HashMap<(Arc<str>, u64), Past>,
    /// How many windows were looked at.
    windows: u64,
}

#[derive(Debug)]
struct Past {
    first: u64,
    last: u64,
    average_parts: u64,
    is_bursting: bool,
}

/// A client that asks far more than it used to.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::observe) struct Sudden {
    pub(in crate::observe) rule: Arc<str>,
    pub(in crate::observe) name: Arc<str>,
    pub(in crate::observe) requests: u64,
    pub(in crate::observe) usual: u64,
}

impl Bursts {
    /// Looks at the requests of the window after the one that was looked at last.
    pub(in crate::observe) fn look(&mut self, traffic: &HashMap<Arc<str>, Tally>) -> Vec<Sudden> {
        self.windows += 1;
        let now = self.windows;
        let mut sudden = Vec::new();
        for (rule, tally) in traffic {
            for (fingerprint, known) in tally.clients() {
                // Only what is certain: an error would make a past of others one's own.
                let requests = known.at_least();
                let client = (Arc::clone(rule), fingerprint);
                let is_full = self.pasts.len() >= MAX_CLIENTS;
                let Some(past) = self.pasts.get_mut(&client) else {
                    if !is_full {
                        self.pasts.insert(client, Past::new(now, requests));
                    }
                    continue;
                };
                let usual = past.usual_parts(now);
                if past.take(now, usual, requests)
                    && let Some(name) = &known.name
                {
                    let (rule, name) = (Arc::clone(rule), Arc::clone(name));
                    sudden.push(Sudden { rule, name, requests, usual: usual / PARTS });
                }
            }
        }
        // Who asks no more is forgotten when nearly nothing of it is left.
        self.pasts.retain(|_, past| past.usual_parts(now + 1) >= PARTS);
        sudden
    }

    pub(in crate::observe) fn forget_clients(&mut self) {
        self.pasts.clear();
    }
}

impl Past {
    fn new(now: u64, requests: u64) -> Past {
        Past { first: now, last: now, average_parts: requests.saturating_mul(PARTS), is_bursting: false }
    }

    /// The average before this window. In windows since the last it asked nothing.
    fn usual_parts(&self, now: u64) -> u64 {
        let silent = now.saturating_sub(self.last + 1);
        (0..silent.min(128)).fold(self.average_parts, |average, _| average - average.div_ceil(WEIGHT_OF_WINDOW))
    }

    /// Takes a window in. `true` if a burst begins with it.
    fn take(&mut self, now: u64, usual_parts: u64, requests: u64) -> bool {
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

    fn window(clients: &[(u64, u64)]) -> HashMap<Arc<str>, Tally> {
        let mut table = FrequentClients::new(128);
        for (client, requests) in clients {
            table.count(*client, *requests, 1).1.name = Some(client.to_string().into());
        }
        let mut tally = Tally::default();
        tally.add(&table);
        HashMap::from([("per-ip".into(), tally)])
    }

    #[test]
    fn a_client_far_above_its_own_past_is_sudden_once() {
        let mut bursts = Bursts::default();
        for _ in 0..10 {
            assert_eq!(bursts.look(&window(&[(1, 160), (2, 10_000)])), []);
        }
        // Another client has asked for more all the time.
        let sudden = bursts.look(&window(&[(1, 3_200), (2, 12_000)]));
        assert_eq!(sudden, [Sudden { rule: "per-ip".into(), name: "1".into(), requests: 3_200, usual: 160 }]);
        assert_eq!(bursts.look(&window(&[(1, 4_800)])), []);
    }

    #[test]
    fn without_a_past_nothing_is_sudden() {
        let mut bursts = Bursts::default();
        assert_eq!(bursts.look(&window(&[(1, 16)])), []);
        assert_eq!(bursts.look(&window(&[(1, 100_000)])), []);
    }

    #[test]
    fn what_is_little_or_grows_slowly_is_no_burst() {
        let mut bursts = Bursts::default();
        for _ in 0..10 {
            bursts.look(&window(&[(1, 16), (2, 1_000)]));
        }
        for round in 1..20 {
            assert_eq!(bursts.look(&window(&[(1, 300), (2, 1_000 * round)])), []);
        }
    }

    #[test]
    fn after_a_silence_less_is_usual() {
        let mut bursts = Bursts::default();
        for _ in 0..10 {
            bursts.look(&window(&[(1, 1_000)]));
        }
        (0..16).for_each(|_| drop(bursts.look(&window(&[]))));
        let sudden = bursts.look(&window(&[(1, 1_000)]));
        assert!((80..=125).contains(&sudden[0].usual), "{sudden:?}");
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let mut bursts = Bursts::default();
        for round in 0..200 {
            let clients: Vec<(u64, u64)> = (0..100).map(|client| (round * 1_000 + client + 1, 16)).collect();
            bursts.look(&window(&clients));
            assert!(bursts.pasts.len() <= MAX_CLIENTS);
        }
        (0..100).for_each(|_| drop(bursts.look(&window(&[]))));
        assert_eq!(bursts.pasts.len(), 0);
    }
}
