//! The overrides that all instances share: limits that an operator has set for a
//! time, and the keys that were reset, so that no instance goes on refusing from
//! memory.
//!
//! It is one key on the servers. Every instance reads it several times a
//! second, and at once when it hears on a channel that it has changed. An
//! instance that could not read it for a second believes no refusal that is
//! older than that, so a second is the longest that a reset can go unnoticed.

mod protocol;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tollgate_store::{ChangeError, SharedOverrides, StoredOverride};

use self::protocol::{News, Request, Said, read_change, read_news};
use crate::resp_value::Value;
use crate::store::Inner;
use crate::wire::{Client, Script};

pub(crate) use protocol::ResetKey;

/// The script's text.
const SOURCE: &str = include_str!("overrides.lua");

/// How often they are read by an instance that hears nothing. Two attempts fit
/// into the second for which a refusal is believed without it.
const READ_EVERY: Duration = Duration::from_millis(400);

/// What their key is called. No scope begins like this.
const NAME: &str = "\\.board";

/// Keeps what this instance knows of them up to date, and changes them.
pub(crate) struct OverrideSync {
    reader: Arc<Reader>,
    listening: [JoinHandle<()>; 2],
}

struct Reader {
    store: Arc<Inner>,
    client: Arc<Client>,
    /// What is known of it here.
    overrides: SharedOverrides,
    /// The epoch that is known. Whoever holds it reads.
    known: Mutex<Option<u64>>,
    changed: Arc<Notify>,
    script: Arc<Script>,
    name: Arc<[u8]>,
}

impl OverrideSync {
    /// Begins to read. It must be called within a runtime.
    pub(crate) fn start(store: Arc<Inner>, client: Arc<Client>) -> OverrideSync {
        let name: Arc<[u8]> = format!("{}{NAME}", store.settings.prefix).into_bytes().into();
        let changed = Arc::new(Notify::new());
        store.refusals.believe_while_hearing();
        let subscription = client.listen(&name, &changed);
        let (overrides, script) = (SharedOverrides::default(), Arc::new(Script::new(SOURCE)));
        let reader = Arc::new(Reader { store, client, overrides, known: Mutex::new(None), changed, script, name });
        let reading = tokio::spawn(Arc::clone(&reader).run());
        OverrideSync { reader, listening: [subscription, reading] }
    }

    /// What is known of it here.
    pub(crate) fn known(&self) -> &SharedOverrides {
        &self.reader.overrides
    }

    pub(crate) async fn set(&self, stored: &StoredOverride) -> Result<(), ChangeError> {
        self.change(&Request::Set(stored)).await
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<(), ChangeError> {
        self.change(&Request::Remove(name)).await
    }

    /// Tells all instances of keys that were reset.
    pub(crate) async fn tell(&self, keys: &[ResetKey]) -> Result<(), ChangeError> {
        self.change(&Request::Tell(keys)).await
    }

    async fn change(&self, request: &Request<'_>) -> Result<(), ChangeError> {
        let answer = self.reader.ask(request).await.ok_or(ChangeError::NoAnswer)?;
        match read_change(&answer) {
            Ok(true) => {
                // Whoever made a change sees it from then on.
                self.reader.read().await;
                Ok(())
            }
            Ok(false) => Err(ChangeError::TooMany),
            Err(_) => Err(ChangeError::NoAnswer),
        }
    }
}

impl Drop for OverrideSync {
    fn drop(&mut self) {
        self.listening.iter().for_each(JoinHandle::abort);
    }
}

impl Reader {
    async fn run(self: Arc<Self>) {
        loop {
            self.read().await;
            tokio::select! {
                () = sleep(READ_EVERY) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    async fn read(&self) {
        let mut known = self.known.lock().await;
        let asked_at = Instant::now();
        let Some(answer) = self.ask(&Request::Read { known: *known }).await else { return };
        match read_news(&answer) {
            Ok(Said::Nothing) => {}
            Ok(Said::News(news)) => *known = Some(self.take_in(*known, news)),
            Err(_) => return,
        }
        // All that was told before the question was asked is known by now.
        self.store.refusals.heard(asked_at);
    }

    fn take_in(&self, known: Option<u64>, news: News) -> u64 {
        let News { epoch, dropped, resets, overrides } = news;
        let is_gap = known.is_none_or(|known| known < dropped || epoch < known);
        if is_gap {
            self.store.refusals.forget_all(Instant::now());
        }
        resets.iter().for_each(|reset| self.store.was_reset_elsewhere(reset));
        self.overrides.replace(overrides);
        epoch
    }

    async fn ask(&self, request: &Request<'_>) -> Option<Value> {
        self.client.run(&self.script, &self.name, request.arguments()).await
    }
}
