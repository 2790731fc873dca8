use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use super::event::Event;

/// The number of stored recent events, and how far a subscriber may lag.
const RECENT_EVENTS: usize = 256;

/// The recent events and the subscribers.
#[derive(Debug)]
pub(super) struct Feed {
    recent: Mutex<VecDeque<Arc<Event>>>,
    sender: Sender<Arc<Event>>,
}

/// A stream of future events. A slow subscriber loses some, and receives their number.
#[derive(Debug)]
pub struct EventSubscription(Receiver<Arc<Event>>);

/// An item for a subscriber.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// An event.
    Event(Arc<Event>),
    /// The number of events that were lost because the subscriber was too slow.
    Lost(u64),
}

impl Feed {
    pub(super) fn new() -> Feed {
        Feed { recent: Mutex::default(), sender: Sender::new(RECENT_EVENTS) }
    }

    pub(super) fn publish(&self, event: &Arc<Event>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT_EVENTS {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(event));
        drop(recent);
        // Having no subscribers is not an error.
        let _ = self.sender.send(Arc::clone(event));
    }

    pub(super) fn recent(&self) -> Vec<Arc<Event>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(super) fn subscribe(&self) -> EventSubscription {
        EventSubscription(self.sender.subscribe())
    }
}

impl EventSubscription {
    /// Waits for the next event; `None` once there will be none.
    pub async fn next(&mut self) -> Option<Delivery> {
        match self.0.recv().await {
            Ok(event) => Some(Delivery::Event(event)),
            Err(RecvError::Lagged(count)) => Some(Delivery::Lost(count)),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::event::{Level, Notice};
    use crate::observe::timestamp::Timestamp;

    fn notice(number: usize) -> Arc<Event> {
        let message = number.to_string();
        Arc::new(Event::Notice(Notice { time: Timestamp(0), level: Level::Info, message }))
    }

    #[tokio::test]
    async fn slow_subscriber_receives_the_number_of_lost_events() {
        let feed = Feed::new();
        let mut subscription = feed.subscribe();
        (0..RECENT_EVENTS + 10).for_each(|number| feed.publish(&notice(number)));
        assert!(matches!(subscription.next().await, Some(Delivery::Lost(10))));
        match subscription.next().await {
            Some(Delivery::Event(event)) => assert_eq!(event, notice(10)),
            other => panic!("{other:?}"),
        }
        assert_eq!(feed.recent().len(), RECENT_EVENTS);
        assert_eq!(feed.recent()[0], notice(10));
        drop(feed);
        for _ in 0..RECENT_EVENTS - 1 {
            assert!(matches!(subscription.next().await, Some(Delivery::Event(_))));
        }
        assert!(subscription.next().await.is_none());
    }
}
