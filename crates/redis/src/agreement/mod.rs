//! Instances that hash secret values under different keys would count the same
//! client apart. So each of them compares the fingerprint of its key with what
//! is written down on the servers, at the start and from then on.
//!
//! What is written down is kept for as long as an instance that has it is
//! there, and a little longer. Then the next one to come writes down its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use smallvec::smallvec;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::resp_value::Value;
use crate::store::{Inner, StoreEvent};
use crate::wire::{Client, Script};

/// The script's text.
const SOURCE: &str = include_str!("agreement.lua");

/// What the key is called. No scope begins like this.
const NAME: &str = "\\.secrets";

/// For how long the fingerprint is kept without an instance that has it.
const KEPT: Duration = Duration::from_secs(30);
/// How often it is compared where it was the same, so that it is kept.
const KEEP_EVERY: Duration = Duration::from_secs(10);
/// How often where it was another, or no server answered.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// One instance's view of what all have in common.
pub(crate) struct Agreement {
    wanted: watch::Sender<Option<Arc<str>>>,
    differs: Arc<AtomicBool>,
    comparing: JoinHandle<()>,
}

struct Comparing {
    store: Arc<Inner>,
    client: Arc<Client>,
    script: Arc<Script>,
    name: Arc<[u8]>,
    differs: Arc<AtomicBool>,
}

impl Agreement {
    /// Begins to compare, once there is something to be compared. It must be called within a runtime.
    pub(crate) fn start(store: Arc<Inner>, client: Arc<Client>) -> Agreement {
        let name = format!("{}{NAME}", store.settings.prefix).into_bytes().into();
        let (wanted, asked) = watch::channel(None);
        let differs = Arc::new(AtomicBool::new(false));
        let comparing =
            Comparing { store, client, script: Arc::new(Script::new(SOURCE)), name, differs: Arc::clone(&differs) };
        Agreement { wanted, differs, comparing: tokio::spawn(comparing.run(asked)) }
    }

    /// What this instance has; `None` if it needs nothing in common with others.
    pub(crate) fn set(&self, fingerprint: Option<&str>) {
        self.wanted.send_if_modified(|wanted| {
            let is_new = wanted.as_deref() != fingerprint;
            if is_new {
                *wanted = fingerprint.map(Arc::from);
            }
            is_new
        });
    }

    /// Whether others are known to have something else.
    pub(crate) fn differs(&self) -> bool {
        self.differs.load(Relaxed)
    }
}

impl Drop for Agreement {
    fn drop(&mut self) {
        self.comparing.abort();
    }
}

impl Comparing {
    async fn run(self, mut asked: watch::Receiver<Option<Arc<str>>>) {
        loop {
            let ours = asked.borrow_and_update().clone();
            let pause = match &ours {
                None => {
                    self.differs.store(false, Relaxed);
                    None
                }
                Some(ours) => Some(self.compare(ours).await),
            };
            let asked_again = match pause {
                None => asked.changed().await,
                Some(pause) => tokio::select! {
                    () = sleep(pause) => Ok(()),
                    changed = asked.changed() => changed,
                },
            };
            if asked_again.is_err() {
                return;
            }
        }
    }

    /// Compares, tells what has changed, and returns when to compare again.
    async fn compare(&self, ours: &str) -> Duration {
        let Some(theirs) = self.ask(ours).await else { return ASK_EVERY };
        let differs = theirs != ours;
        if self.differs.swap(differs, Relaxed) != differs {
            (self.store.on_change)(match differs {
                true => StoreEvent::SecretKeyDiffers { ours: ours.to_owned(), theirs },
                false => StoreEvent::SecretKeyAgrees { fingerprint: theirs },
            });
        }
        if differs { ASK_EVERY } else { KEEP_EVERY }
    }

    /// What is written down; `None` if no server says so.
    async fn ask(&self, ours: &str) -> Option<String> {
        let arguments = smallvec![ours.as_bytes().to_vec(), KEPT.as_millis().to_string().into_bytes()];
        match self.client.run(&self.script, &self.name, arguments).await? {
            Value::Bulk(Some(theirs)) => Some(String::from_utf8_lossy(&theirs).into_owned()),
            _ => None,
        }
    }
}
