use std::sync::Arc;

use tokio::task::JoinHandle;
use tollgate_server::observe::Level;
use tollgate_server::{Engine, SnapshotWriter};

use crate::output::log;

/// The task that writes snapshots of the counters while the service runs.
pub(super) struct Snapshots {
    writer: Arc<SnapshotWriter>,
    task: JoinHandle<()>,
}

impl Snapshots {
    /// Logs how the snapshot was restored, and starts to write. `None` if the policy configures no snapshot.
    pub(super) fn start(engine: &Engine) -> Option<Snapshots> {
        let writer = engine.snapshots()?;
        log(writer.startup().level(), writer.startup());
        let task = tokio::spawn(Arc::clone(&writer).keep(|event| log(event.level(), event)));
        Some(Snapshots { writer, task })
    }

    /// Writes the last snapshot, after all listeners are closed. Returns whether it was written.
    pub(super) async fn stop(self) -> bool {
        self.task.abort();
        let last = tokio::task::spawn_blocking(move || self.writer.write_last()).await;
        match last {
            Ok(event) => {
                log(event.level(), &event);
                event.level() == Level::Info
            }
            Err(error) => {
                log(Level::Error, format_args!("the last snapshot was not written: {error}"));
                false
            }
        }
    }
}
