use std::sync::Arc;

use tokio::task::JoinHandle;
use tollgate_server::{Engine, SnapshotKeeper};

use crate::talk::say;

/// The counters being written down while the service runs.
pub(super) struct Snapshots {
    keeper: Arc<SnapshotKeeper>,
    keeping: JoinHandle<()>,
}

impl Snapshots {
    /// Says what was found, and writes from now on. `None` if the policy wants nothing written.
    pub(super) fn begin(engine: &Engine) -> Option<Snapshots> {
        let keeper = engine.snapshots()?;
        say(keeper.beginning());
        let keeping = tokio::spawn(Arc::clone(&keeper).keep(say));
        Some(Snapshots { keeper, keeping })
    }

    /// Writes them for the last time, once nobody is served any more.
    pub(super) async fn end(self) {
        self.keeping.abort();
        let last = tokio::task::spawn_blocking(move || self.keeper.write_last()).await;
        match last {
            Ok(event) => say(event),
            Err(error) => say(format_args!("warning: the counters were not written: {error}")),
        }
    }
}
