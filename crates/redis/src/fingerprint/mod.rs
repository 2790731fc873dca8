//! Checks that all instances hash secret values under the same key. Instances with different keys would count the same
//! client separately. So each instance compares the fingerprint of its key with the one stored on the servers, at the
//! start and periodically from then on.
//!
//! The stored fingerprint expires shortly after the last instance that has it has stopped. Then the next instance
//! stores its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use smallvec::smallvec;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::resp_value::Value;
use crate::store::{Inner, StoreEvent};
use crate::wire::{RedisClient, Script};

/// The source of the script.
const SOURCE: &str = include_str!("fingerprint.lua");

/// The name of the key after the prefix. No scope begins with `\.`.
const NAME: &str = "\\.secrets";

/// The expiry of the stored fingerprint without an instance that extends it.
const EXPIRY: Duration = Duration::from_secs(30);
/// The interval of comparisons while the fingerprints are equal. Each extends the expiry.
const EXTEND_INTERVAL: Duration = Duration::from_secs(10);
/// The interval while they differ, or no server replies.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Compares the fingerprint of this instance's secret key with that of the other instances.
pub(crate) struct FingerprintCheck {
    fingerprint: watch::Sender<Option<Arc<str>>>,
    differs: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

struct FingerprintTask {
    store: Arc<Inner>,
    client: Arc<RedisClient>,
    script: Arc<Script>,
    name: Arc<[u8]>,
    differs: Arc<AtomicBool>,
}

impl FingerprintCheck {
    /// Starts the task that compares, once there is a fingerprint. Must be called within a Tokio runtime.
    pub(crate) fn start(store: Arc<Inner>, client: Arc<RedisClient>) -> FingerprintCheck {
        let name = format!("{}{NAME}", store.settings.prefix).into_bytes().into();
        let (fingerprint, changes) = watch::channel(None);
        let differs = Arc::new(AtomicBool::new(false));
        let script = Arc::new(Script::new(SOURCE));
        let task = FingerprintTask { store, client, script, name, differs: Arc::clone(&differs) };
        FingerprintCheck { fingerprint, differs, task: tokio::spawn(task.run(changes)) }
    }

    /// Sets the fingerprint of this instance; `None` if it hashes no secret values.
    pub(crate) fn set(&self, fingerprint: Option<&str>) {
        self.fingerprint.send_if_modified(|current| {
            let is_new = current.as_deref() != fingerprint;
            if is_new {
                *current = fingerprint.map(Arc::from);
            }
            is_new
        });
    }

    /// Returns whether another instance is known to have another fingerprint.
    pub(crate) fn differs(&self) -> bool {
        self.differs.load(Relaxed)
    }
}

impl Drop for FingerprintCheck {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FingerprintTask {
    async fn run(self, mut changes: watch::Receiver<Option<Arc<str>>>) {
        loop {
            let ours = changes.borrow_and_update().clone();
            let pause = match &ours {
                None => {
                    self.differs.store(false, Relaxed);
                    None
                }
                Some(ours) => Some(self.compare(ours).await),
            };
            let changed = match pause {
                None => changes.changed().await,
                Some(pause) => tokio::select! {
                    () = sleep(pause) => Ok(()),
                    changed = changes.changed() => changed,
                },
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Compares, reports a change of the result, and returns the pause before the next comparison.
    async fn compare(&self, ours: &str) -> Duration {
        let Some(theirs) = self.exchange(ours).await else { return RETRY_INTERVAL };
        let differs = theirs != ours;
        if self.differs.swap(differs, Relaxed) != differs {
            (self.store.on_event)(match differs {
                true => StoreEvent::SecretKeyDiffers { ours: ours.to_owned(), theirs },
                false => StoreEvent::SecretKeyAgrees { fingerprint: theirs },
            });
        }
        if differs { RETRY_INTERVAL } else { EXTEND_INTERVAL }
    }

    /// Runs the script. Returns the stored fingerprint; `None` without a reply in time.
    async fn exchange(&self, ours: &str) -> Option<String> {
        let arguments = smallvec![ours.as_bytes().to_vec(), EXPIRY.as_millis().to_string().into_bytes()];
        match self.client.run(&self.script, &self.name, arguments).await? {
            Value::Bulk(Some(theirs)) => Some(String::from_utf8_lossy(&theirs).into_owned()),
            _ => None,
        }
    }
}
