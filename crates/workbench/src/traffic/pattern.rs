//! Traffic that shows how algorithms differ under one limit.

use tollgate::Rate;

use super::random::SeededRandom;

/// A request of generated traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time in nanoseconds since 1970.
    pub time_ns: u64,
    /// The number of the client, from 0.
    pub client: u32,
}

/// A pattern of arrivals around a limit of `L` in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPattern {
    /// One client sends `L` requests at the end of a window of the clock, and `L` at the beginning of the next.
    Boundary,
    /// One client sends `2 L` requests in a hundredth of a window, in every third window.
    Burst,
    /// One client sends `1.5 L` requests a window, evenly.
    Steady,
    /// Clients send at random, at mean rates from a fifth of the limit to just above it.
    Poisson,
}

/// The largest limit for which traffic is generated: a pattern has up to ten times as many requests.
pub const MAX_GENERATED_LIMIT: u64 = 1_000_000;

/// 2026-01-01 in nanoseconds since 1970. Traffic begins at the first window after it.
const START_NS: u64 = 1_767_225_600_000_000_000;

/// The seed of random traffic.
const SEED: u64 = 1;

impl TrafficPattern {
    /// Returns the requests, in the order of time; `None` if the limit is above [`MAX_GENERATED_LIMIT`].
    #[must_use]
    pub fn arrivals(self, rate: &Rate) -> Option<Vec<Arrival>> {
        let (limit, window_ns) = (rate.count(), rate.period_ns());
        if limit > MAX_GENERATED_LIMIT {
            return None;
        }
        let start_ns = START_NS.div_ceil(window_ns) * window_ns;
        Some(match self {
            TrafficPattern::Boundary => {
                let half_ns = window_ns / 120;
                evenly(start_ns + window_ns - half_ns, 2 * half_ns, 2 * limit).collect()
            }
            TrafficPattern::Burst => {
                // In the middle of windows: bursts at their boundaries are another pattern.
                let starts = (0..3).map(|burst| start_ns + 3 * burst * window_ns + window_ns / 2);
                starts.flat_map(|start_ns| evenly(start_ns, window_ns / 100, 2 * limit)).collect()
            }
            TrafficPattern::Steady => evenly(start_ns, 4 * window_ns, 6 * limit).collect(),
            TrafficPattern::Poisson => poisson(start_ns, window_ns, limit),
        })
    }
}

/// Returns requests of one client by their number in each slot, evenly within it. The first slot begins with a window of
/// the clock; `slots_per_window` of them are as long as a window.
#[must_use]
pub fn drawn_arrivals(rate: &Rate, slots_per_window: u64, counts: &[u64]) -> Vec<Arrival> {
    let window_ns = rate.period_ns();
    let start_ns = START_NS.div_ceil(window_ns) * window_ns;
    let slot_ns = (window_ns / slots_per_window.max(1)).max(1);
    let slots = (0..).zip(counts);
    slots.flat_map(|(at, count)| evenly(start_ns + at * slot_ns, slot_ns, *count)).collect()
}

/// Requests of one client at equal distances, the first at `start_ns`, the last before `start_ns + span_ns`.
fn evenly(start_ns: u64, span_ns: u64, count: u64) -> impl Iterator<Item = Arrival> {
    let offset_ns = move |at: u64| (u128::from(span_ns) * u128::from(at) / u128::from(count.max(1))) as u64;
    (0..count).map(move |at| Arrival { time_ns: start_ns + offset_ns(at), client: 0 })
}

fn poisson(start_ns: u64, window_ns: u64, limit: u64) -> Vec<Arrival> {
    /// The windows of traffic.
    const WINDOWS: u64 = 10;
    /// The requests of all clients, which bounds the number of clients under large limits.
    const MAX_REQUESTS: u64 = 2_000_000;
    let clients = (MAX_REQUESTS / (WINDOWS * limit)).clamp(1, 100);
    let mut arrivals = Vec::new();
    for client in 0..clients {
        let mut random = SeededRandom::new(SEED + client);
        // From 20 % of the limit for the first client to 110 % for the last.
        let percent = if clients == 1 { 90 } else { 20 + 90 * client / (clients - 1) };
        let gap_ns = (u128::from(window_ns) * 100 / (u128::from(limit) * u128::from(percent))) as u64;
        let mut time_ns = start_ns + random.exponential(gap_ns);
        while time_ns < start_ns + WINDOWS * window_ns {
            arrivals.push(Arrival { time_ns, client: client as u32 });
            time_ns += random.exponential(gap_ns).max(1);
        }
    }
    arrivals.sort_unstable_by_key(|arrival| (arrival.time_ns, arrival.client));
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_in_order_and_their_number_is_known() {
        let rate: Rate = "100/min".parse().unwrap();
        for (pattern, count) in [
            (TrafficPattern::Boundary, 200..=200),
            (TrafficPattern::Burst, 600..=600),
            (TrafficPattern::Steady, 600..=600),
            (TrafficPattern::Poisson, 60_000..=70_000),
        ] {
            let arrivals = pattern.arrivals(&rate).unwrap();
            assert!(count.contains(&arrivals.len()), "{pattern:?}: {}", arrivals.len());
            assert!(arrivals.is_sorted_by_key(|arrival| arrival.time_ns), "{pattern:?}");
        }
    }

    #[test]
    fn boundary_traffic_is_half_before_and_half_after_a_boundary() {
        let rate: Rate = "100/min".parse().unwrap();
        let arrivals = TrafficPattern::Boundary.arrivals(&rate).unwrap();
        let minute = |at: usize| arrivals[at].time_ns / rate.period_ns();
        assert_eq!((minute(99), minute(100)), (minute(0), minute(0) + 1));
        assert!(arrivals[199].time_ns - arrivals[0].time_ns < 1_000_000_000);
    }

    #[test]
    fn drawn_traffic_has_the_requests_of_each_slot() {
        let rate: Rate = "10/min".parse().unwrap();
        let arrivals = drawn_arrivals(&rate, 6, &[0, 2, 0, 1]);
        let offset_s = |at: usize| arrivals[at].time_ns % rate.period_ns() / 1_000_000_000;
        assert_eq!((arrivals.len(), offset_s(0), offset_s(1), offset_s(2)), (3, 10, 15, 30));
    }

    #[test]
    fn traffic_is_not_generated_for_limits_that_would_fill_the_memory() {
        let rate: Rate = "1000001/s".parse().unwrap();
        assert_eq!(TrafficPattern::Steady.arrivals(&rate), None);
    }
}
