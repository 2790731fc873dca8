use std::sync::Arc;

use tokio::task::JoinHandle;
use tollgate_server::observe::Level;
use tollgate_server::{Engine, SnapshotKeeper};

use crate::output::say_as;

/// The counters being written down while the service runs.
pub(super) struct Snapshots {
    keeper: Arc<SnapshotKeeper>,
    keeping: JoinHandle<()>,
}

impl Snapshots {
    /// Says what was found, and writes from now on. `None` if the policy wants nothing written.
    pub(super) fn begin(engine: &Engine) -> Option<Snapshots> {
        let keeper = engine.snapshots()?;
        say_as(keeper.beginning().level(), keeper.beginning());
        let keeping = tokio::spawn(Arc::clone(&keeper).keep(|event| say_as(event.level(), event)));
        Some(Snapshots { keeper, keeping })
    }

    /// Writes them for the last time, once nobody is served any more, and says whether they are written.
    pub(super) async fn end(self) -> bool {
        self.keeping.abort();
        let last = tokio::task::spawn_blocking(move || self.keeper.write_last()).await;
        match last {
            Ok(event) => {
                say_as(event.level(), &event);
                event.level() == Level::Info
            }
            Err(error) => {
                say_as(Level::Error, format_args!("the counters were not written: {error}"));
                false
            }
        }
    }
}
