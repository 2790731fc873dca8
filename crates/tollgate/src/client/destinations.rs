//! The keys of a client, in bounded number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::destination::{Destination, QueueBounds};

/// A full map loses an eighth of its keys at once, so that the search for them is rare.
const EVICTED: usize = 8;

/// The destinations by key.
#[derive(Debug)]
pub(super) struct Destinations {
    epoch: Instant,
    bounds: QueueBounds,
    max_keys: usize,
    by_key: Mutex<HashMap<Box<str>, Arc<Destination>>>,
}

impl Destinations {
    pub(super) fn new(bounds: QueueBounds, max_keys: usize) -> Destinations {
        Destinations { epoch: Instant::now(), bounds, max_keys: max_keys.max(1), by_key: Mutex::default() }
    }

    /// Returns the destination of a key. If the map is full of keys that are in use, a further one has no memory.
    pub(super) fn get(&self, key: &str) -> Arc<Destination> {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by_key.get(key) {
            return Arc::clone(known);
        }
        let new = Arc::new(Destination::new(self.epoch, self.bounds));
        if by_key.len() >= self.max_keys {
            evict(&mut by_key);
        }
        if by_key.len() < self.max_keys {
            by_key.insert(key.into(), Arc::clone(&new));
        }
        new
    }
}

/// Removes the keys that were not used for the longest time, among those that are not in use.
fn evict(by_key: &mut HashMap<Box<str>, Arc<Destination>>) {
    let is_unused = |destination: &Arc<Destination>| Arc::strong_count(destination) == 1;
    let since_ns = |destination: &Arc<Destination>| destination.idle_since_ns().filter(|_| is_unused(destination));
    let mut times: Vec<u64> = by_key.values().filter_map(since_ns).collect();
    if times.is_empty() {
        return;
    }
    let last = (by_key.len() / EVICTED).min(times.len() - 1);
    let (_, newest_ns, _) = times.select_nth_unstable(last);
    let newest_ns = *newest_ns;
    by_key.retain(|_, destination| since_ns(destination).is_none_or(|used_ns| used_ns > newest_ns));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn destinations(max_keys: usize) -> Destinations {
        let bounds = QueueBounds { max_waiting: 1, max_wait: Duration::from_secs(1), ceiling: Duration::from_secs(1) };
        Destinations::new(bounds, max_keys)
    }

    fn len(destinations: &Destinations) -> usize {
        destinations.by_key.lock().unwrap().len()
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_keys_is_bounded_and_the_oldest_are_evicted() {
        let all = destinations(100);
        for key in 0..1_000 {
            all.get(&key.to_string());
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(len(&all) <= 100);
        }
        let kept = all.by_key.lock().unwrap();
        assert!(kept.contains_key("999") && !kept.contains_key("1"));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_in_use_are_not_evicted() {
        let all = destinations(10);
        let held: Vec<_> = (0..10).map(|key| all.get(&key.to_string())).collect();
        (10..50).for_each(|key| drop(all.get(&key.to_string())));
        assert!((0..10).all(|key| Arc::ptr_eq(&all.get(&key.to_string()), &held[key])));
        assert_eq!(len(&all), 10);
    }
}
