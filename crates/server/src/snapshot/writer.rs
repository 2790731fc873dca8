use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use tokio::sync::watch;
use tollgate::AsyncLimiter;
use tollgate::store::SnapshotSummary;

use super::file::SnapshotFile;
use super::metrics::SnapshotMetrics;
use super::open::{OpenedSnapshot, StartupSnapshot};
use super::{key_count, wall_ns};
use crate::observe::Level;
use crate::store::memory_of;

/// Writes snapshots periodically and at shutdown.
pub struct SnapshotWriter {
    limiter: AsyncLimiter,
    file: SnapshotFile,
    startup: StartupSnapshot,
    every: watch::Sender<Duration>,
    metrics: SnapshotMetrics,
    /// Held during a write.
    writing: Mutex<()>,
}

/// An event for operators.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotEvent {
    /// A write failed. The old file still exists.
    Failed {
        /// The file.
        file: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A write succeeded after failures.
    Recovered {
        /// The file.
        file: PathBuf,
    },
    /// The last snapshot before shutdown.
    Last {
        /// The file.
        file: PathBuf,
        /// The number of keys and bytes.
        written: SnapshotSummary,
    },
}

impl SnapshotWriter {
    pub(crate) fn new(opened: OpenedSnapshot, limiter: AsyncLimiter) -> SnapshotWriter {
        SnapshotWriter {
            limiter,
            file: opened.file,
            metrics: SnapshotMetrics::new(&opened.startup),
            startup: opened.startup,
            every: watch::Sender::new(Duration::from_nanos(opened.every_ns)),
            writing: Mutex::default(),
        }
    }

    /// Returns the snapshot found at startup.
    #[must_use]
    pub fn startup(&self) -> &StartupSnapshot {
        &self.startup
    }

    pub(crate) fn metrics(&self) -> &SnapshotMetrics {
        &self.metrics
    }

    /// Sets the interval.
    pub(crate) fn set_every(&self, every_ns: u64) {
        let every = Duration::from_nanos(every_ns);
        self.every.send_if_modified(|old| std::mem::replace(old, every) != every);
    }

    /// Writes snapshots periodically until dropped. Reports only changes: the first failure, and the recovery.
    pub async fn keep(self: Arc<Self>, report: impl Fn(SnapshotEvent) + Send) {
        let mut every = self.every.subscribe();
        let mut is_failing = false;
        loop {
            let next = *every.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                // The sender belongs to `self`, and is never closed.
                _ = every.changed() => continue,
            }
            let writer = Arc::clone(&self);
            let Ok(written) = tokio::task::spawn_blocking(move || writer.write()).await else { continue };
            let was_failing = std::mem::replace(&mut is_failing, written.is_err());
            let file = self.file.path().to_owned();
            match written {
                Err(error) if !was_failing => report(SnapshotEvent::Failed { file, error }),
                Ok(_) if was_failing => report(SnapshotEvent::Recovered { file }),
                _ => {}
            }
        }
    }

    /// Writes the last snapshot. Blocks until it is on disk.
    #[must_use]
    pub fn write_last(&self) -> SnapshotEvent {
        let file = self.file.path().to_owned();
        match self.write() {
            Ok(written) => SnapshotEvent::Last { file, written },
            Err(error) => SnapshotEvent::Failed { file, error },
        }
    }

    /// Writes a snapshot now.
    fn write(&self) -> io::Result<SnapshotSummary> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(store) = memory_of(&self.limiter) else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the counters are not in memory"));
        };
        let (begun, begun_ns) = (Instant::now(), wall_ns());
        let written = self.file.replace(|to| store.write_snapshot(begun_ns, to));
        match &written {
            Ok(written) => self.metrics.note_success(begun_ns, written.bytes, begun.elapsed()),
            Err(_) => self.metrics.note_failure(),
        }
        written
    }
}

impl fmt::Debug for SnapshotWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotWriter").field("file", &self.file.path()).finish_non_exhaustive()
    }
}

impl SnapshotEvent {
    /// Returns the log level.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            SnapshotEvent::Failed { .. } => Level::Error,
            SnapshotEvent::Recovered { .. } | SnapshotEvent::Last { .. } => Level::Info,
        }
    }
}

impl fmt::Display for SnapshotEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotEvent::Failed { file, error } => {
                write!(f, "the snapshot {} was not written, and the old one remains: {error}", file.display())
            }
            SnapshotEvent::Recovered { file } => write!(f, "the snapshot {} is written again", file.display()),
            SnapshotEvent::Last { file, written } => {
                let keys = key_count(written.keys);
                write!(f, "counters were saved to {}: {keys}, {} bytes", file.display(), written.bytes)
            }
        }
    }
}
