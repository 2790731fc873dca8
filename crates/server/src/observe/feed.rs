use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use super::event::Event;

/// How many events are kept for who asks what happened, and how many one who
/// listens may lag behind.
const KEPT_EVENTS: usize = 256;

/// The latest events, and those who listen.
#[derive(Debug)]
pub(super) struct Feed {
    recent: Mutex<VecDeque<Arc<Event>>>,
    sender: Sender<Arc<Event>>,
}

/// Events from now on. One who is slow loses some, and is told how many.
#[derive(Debug)]
pub struct Subscription(Receiver<Arc<Event>>);

/// What a subscriber is told.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// Something happened.
    Event(Arc<Event>),
    /// So many events came faster than they were taken, and are lost.
    Lost(u64),
}

impl Feed {
    pub(super) fn new() -> Feed {
        Feed { recent: Mutex::default(), sender: Sender::new(KEPT_EVENTS) }
    }

    pub(super) fn tell(&self, event: &Arc<Event>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == KEPT_EVENTS {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(event));
        drop(recent);
        // That nobody listens is no failure.
        let _ = self.sender.send(Arc::clone(event));
    }

    pub(super) fn recent(&self) -> Vec<Arc<Event>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(super) fn subscribe(&self) -> Subscription {
        Subscription(self.sender.subscribe())
    }
}

impl Subscription {
    /// Waits for what happens next; `None` once nothing will.
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
    async fn who_is_slow_is_told_what_was_lost() {
        let feed = Feed::new();
        let mut subscription = feed.subscribe();
        (0..KEPT_EVENTS + 10).for_each(|number| feed.tell(&notice(number)));
        assert!(matches!(subscription.next().await, Some(Delivery::Lost(10))));
        match subscription.next().await {
            Some(Delivery::Event(event)) => assert_eq!(event, notice(10)),
            other => panic!("{other:?}"),
        }
        assert_eq!(feed.recent().len(), KEPT_EVENTS);
        assert_eq!(feed.recent()[0], notice(10));
        drop(feed);
        for _ in 0..KEPT_EVENTS - 1 {
            assert!(matches!(subscription.next().await, Some(Delivery::Event(_))));
        }
        assert!(subscription.next().await.is_none());
    }
}
