use std::sync::{Arc, Mutex, PoisonError};

use tollgate::redis::StoreEvent;
use tollgate_server::observe::{Level, Observer};

/// Tells what the shared store is at, but nothing before the listeners are
/// announced: whoever starts the program reads where it listens first.
pub(super) struct StoreEvents {
    observer: Arc<Observer>,
    /// What happened before; `None` from then on.
    early: Mutex<Option<Vec<StoreEvent>>>,
}

impl StoreEvents {
    pub(super) fn new(observer: Arc<Observer>) -> StoreEvents {
        StoreEvents { observer, early: Mutex::new(Some(Vec::new())) }
    }

    pub(super) fn hear(&self, event: StoreEvent) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *early {
            Some(waiting) => waiting.push(event),
            None => self.tell(&event),
        }
    }

    /// Tells what has happened so far, and from now on at once.
    pub(super) fn announce(&self) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.take().iter().flatten().for_each(|event| self.tell(event));
    }

    fn tell(&self, event: &StoreEvent) {
        // A store that fails is no small thing, even where every rule has something else to go by.
        let level = if event.is_trouble() { Level::Error } else { Level::Info };
        self.observer.say_of_store(level, event);
    }
}
