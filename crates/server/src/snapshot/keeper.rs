use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use tokio::sync::watch;
use tollgate::{AsyncLimiter, Written};

use super::file::SnapshotFile;
use super::metrics::SnapshotMetrics;
use super::open::{Beginning, Opened};
use super::{so_many, wall_ns};
use crate::observe::Level;

/// Writes the counters down, from time to time and at the end.
pub struct SnapshotKeeper {
    limiter: AsyncLimiter,
    file: SnapshotFile,
    beginning: Beginning,
    every: watch::Sender<Duration>,
    metrics: SnapshotMetrics,
    /// Held by whoever writes.
    writing: Mutex<()>,
}

/// What an operator should know about snapshots.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotEvent {
    /// It could not be written. The old one is still there.
    Failed {
        /// Where to.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It could be written again.
    Recovered {
        /// Where to.
        file: PathBuf,
    },
    /// The last one, before the service ends.
    Last {
        /// Where to.
        file: PathBuf,
        /// How much it was.
        written: Written,
    },
}

impl SnapshotKeeper {
    pub(crate) fn new(opened: Opened, limiter: AsyncLimiter) -> SnapshotKeeper {
        SnapshotKeeper {
            limiter,
            file: opened.file,
            metrics: SnapshotMetrics::new(&opened.beginning),
            beginning: opened.beginning,
            every: watch::Sender::new(Duration::from_nanos(opened.every_ns)),
            writing: Mutex::default(),
        }
    }

    /// What was there when the service started.
    #[must_use]
    pub fn beginning(&self) -> &Beginning {
        &self.beginning
    }

    pub(crate) fn metrics(&self) -> &SnapshotMetrics {
        &self.metrics
    }

    /// How often from now on.
    pub(crate) fn set_every(&self, every_ns: u64) {
        let every = Duration::from_nanos(every_ns);
        self.every.send_if_modified(|old| std::mem::replace(old, every) != every);
    }

    /// Writes it every so often, until it is dropped. Only what changes is told:
    /// that it fails, and that it does no longer.
    pub async fn keep(self: Arc<Self>, tell: impl Fn(SnapshotEvent) + Send) {
        let mut every = self.every.subscribe();
        let mut is_failing = false;
        loop {
            let next = *every.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                // The sender is ours, and lives as long as we do.
                _ = every.changed() => continue,
            }
            let keeper = Arc::clone(&self);
            let Ok(written) = tokio::task::spawn_blocking(move || keeper.write()).await else { continue };
            let was_failing = std::mem::replace(&mut is_failing, written.is_err());
            let file = self.file.path().to_owned();
            match written {
                Err(error) if !was_failing => tell(SnapshotEvent::Failed { file, error }),
                Ok(_) if was_failing => tell(SnapshotEvent::Recovered { file }),
                _ => {}
            }
        }
    }

    /// Writes it for the last time. This blocks until it is on the disk.
    #[must_use]
    pub fn write_last(&self) -> SnapshotEvent {
        let file = self.file.path().to_owned();
        match self.write() {
            Ok(written) => SnapshotEvent::Last { file, written },
            Err(error) => SnapshotEvent::Failed { file, error },
        }
    }

    /// Writes it now.
    fn write(&self) -> io::Result<Written> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(store) = self.limiter.memory_store() else {
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

impl fmt::Debug for SnapshotKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotKeeper").field("file", &self.file.path()).finish_non_exhaustive()
    }
}

impl SnapshotEvent {
    /// How grave it is.
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
                write!(f, "the snapshot {} was not written, and is as it was: {error}", file.display())
            }
            SnapshotEvent::Recovered { file } => write!(f, "the snapshot {} is written again", file.display()),
            SnapshotEvent::Last { file, written } => {
                let keys = so_many(written.keys);
                write!(f, "counters are in {}: {keys}, {} bytes", file.display(), written.bytes)
            }
        }
    }
}
