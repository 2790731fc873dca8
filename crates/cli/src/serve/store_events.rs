use std::sync::{Arc, Mutex, PoisonError};

use tollgate::redis::StoreEvent;
use tollgate_server::observe::{Level, Observer};

/// Logs events of the shared store, but none before the listeners are logged: programs that start the service read the
/// addresses from its first lines.
pub(super) struct StoreEvents {
    observer: Arc<Observer>,
    /// Events that are not logged yet; `None` once events are logged at once.
    queued: Mutex<Option<Vec<StoreEvent>>>,
}

impl StoreEvents {
    pub(super) fn new(observer: Arc<Observer>) -> StoreEvents {
        StoreEvents { observer, queued: Mutex::new(Some(Vec::new())) }
    }

    /// Logs an event, or queues it before [`log_from_now_on`](StoreEvents::log_from_now_on).
    pub(super) fn handle(&self, event: StoreEvent) {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *queued {
            Some(events) => events.push(event),
            None => self.log(&event),
        }
    }

    /// Logs the queued events, and all later ones at once.
    pub(super) fn log_from_now_on(&self) {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        queued.take().iter().flatten().for_each(|event| self.log(event));
    }

    fn log(&self, event: &StoreEvent) {
        // A failing store is an error even if every rule has a fallback.
        let level = if event.is_failure() { Level::Error } else { Level::Info };
        self.observer.log_store_notice(level, event);
    }
}
