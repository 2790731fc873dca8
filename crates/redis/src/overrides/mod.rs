//! Overrides and resets, shared by all instances. An override is a limit that an operator has set for a time. Resets
//! are shared so that no instance continues to refuse a reset key from its cache of refusals.
//!
//! Both are stored under one key on the servers. Every instance reads the key several times a second, and immediately
//! after a notification on a pub/sub channel. An instance that could not read the key for a second does not use a
//! cached refusal that is older than that, so a reset takes effect everywhere within a second.

mod protocol;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tollgate_store::{ChangeError, SharedOverrides, StoredOverride};

use self::protocol::{OverrideChanges, OverrideRequest, OverridesReply, parse_change, parse_changes};
use crate::resp_value::Value;
use crate::store::Inner;
use crate::wire::{RedisClient, Script};

pub(crate) use protocol::ResetKey;

/// The source of the script.
const SOURCE: &str = include_str!("overrides.lua");

/// The interval of reads without a notification. Two attempts fit into the second for which a cached refusal is used
/// without a read.
const READ_INTERVAL: Duration = Duration::from_millis(400);

/// The name of the key, and of the channel, behind the prefix. No scope begins like this.
const NAME: &str = "\\.board";

/// Keeps the local copy of the overrides up to date, and changes the overrides of all instances.
pub(crate) struct OverrideSync {
    reader: Arc<Reader>,
    /// The subscription and the reader.
    tasks: [JoinHandle<()>; 2],
}

struct Reader {
    store: Arc<Inner>,
    client: Arc<RedisClient>,
    /// The local copy.
    overrides: SharedOverrides,
    /// The epoch of the local copy. The lock is held while the key is read.
    known_epoch: Mutex<Option<u64>>,
    /// Notified of changes by other instances.
    changed: Arc<Notify>,
    script: Arc<Script>,
    name: Arc<[u8]>,
}

impl OverrideSync {
    /// Starts the subscription and the reader. Must be called within a Tokio runtime.
    pub(crate) fn start(store: Arc<Inner>, client: Arc<RedisClient>) -> OverrideSync {
        let name: Arc<[u8]> = format!("{}{NAME}", store.settings.prefix).into_bytes().into();
        let changed = Arc::new(Notify::new());
        store.refusals.require_sync();
        let subscription = client.subscribe(&name, &changed);
        let (overrides, script) = (SharedOverrides::default(), Arc::new(Script::new(SOURCE)));
        let known_epoch = Mutex::new(None);
        let reader = Arc::new(Reader { store, client, overrides, known_epoch, changed, script, name });
        let reading = tokio::spawn(Arc::clone(&reader).run());
        OverrideSync { reader, tasks: [subscription, reading] }
    }

    /// Returns the local copy of the overrides.
    pub(crate) fn local_copy(&self) -> &SharedOverrides {
        &self.reader.overrides
    }

    pub(crate) async fn set(&self, stored: &StoredOverride) -> Result<(), ChangeError> {
        self.change(&OverrideRequest::Set(stored)).await
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<(), ChangeError> {
        self.change(&OverrideRequest::Remove(name)).await
    }

    /// Announces keys that were reset to all instances.
    pub(crate) async fn announce_resets(&self, keys: &[ResetKey]) -> Result<(), ChangeError> {
        self.change(&OverrideRequest::AnnounceResets(keys)).await
    }

    async fn change(&self, request: &OverrideRequest<'_>) -> Result<(), ChangeError> {
        let reply = self.reader.send(request).await.ok_or(ChangeError::Timeout)?;
        match parse_change(&reply) {
            Ok(true) => {
                // The instance that made a change uses it when this returns.
                self.reader.read().await;
                Ok(())
            }
            Ok(false) => Err(ChangeError::TooMany),
            Err(_) => Err(ChangeError::Timeout),
        }
    }
}

impl Drop for OverrideSync {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Reader {
    async fn run(self: Arc<Self>) {
        loop {
            self.read().await;
            tokio::select! {
                () = sleep(READ_INTERVAL) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    async fn read(&self) {
        let mut known_epoch = self.known_epoch.lock().await;
        let requested_at = Instant::now();
        let Some(reply) = self.send(&OverrideRequest::Read { known_epoch: *known_epoch }).await else { return };
        match parse_changes(&reply) {
            Ok(OverridesReply::Unchanged) => {}
            Ok(OverridesReply::Changed(changes)) => *known_epoch = Some(self.apply(*known_epoch, changes)),
            Err(_) => return,
        }
        // The reply contains every reset that was announced before the request was sent.
        self.store.refusals.overrides_read_at(requested_at);
    }

    /// Applies changes to the local copy. Returns their epoch.
    fn apply(&self, known_epoch: Option<u64>, changes: OverrideChanges) -> u64 {
        let OverrideChanges { epoch, dropped_epoch, resets, overrides } = changes;
        // True also for the first read, and after the server has lost its data.
        let has_missed_resets = known_epoch.is_none_or(|known| known < dropped_epoch || epoch < known);
        if has_missed_resets {
            self.store.refusals.remove_all(Instant::now());
        }
        resets.iter().for_each(|reset| self.store.drop_local_state(reset));
        self.overrides.replace(overrides);
        epoch
    }

    /// Sends a request; `None` without a reply in time.
    async fn send(&self, request: &OverrideRequest<'_>) -> Option<Value> {
        self.client.run(&self.script, &self.name, request.arguments()).await
    }
}
