use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tollgate::MemoryStore;
use tollgate::clock::Clock;
use tollgate::policy::model::{MemorySettings, SnapshotSettings, StoreSettings};
use tollgate::store::{BuildError, RestoreError, RestoreSummary, memory_options};

use super::file::SnapshotFile;
use super::{key_count, wall_ns};
use crate::observe::Level;

/// The snapshot found at startup.
#[derive(Debug)]
pub enum StartupSnapshot {
    /// There was no file.
    New {
        /// The file that will be written.
        file: PathBuf,
    },
    /// Counters were restored.
    Restored {
        /// The file.
        file: PathBuf,
        /// The numbers of restored and lost keys.
        restored: RestoreSummary,
        /// How long ago they were written.
        age: Duration,
    },
    /// The file was not usable and was renamed. Every limit starts anew.
    SetAside {
        /// The original name.
        file: PathBuf,
        /// The new name.
        aside: PathBuf,
        /// The cause.
        error: RestoreError,
    },
}

/// Why a snapshot file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Another process uses the file.
    #[error("another process uses the snapshot {}: two processes cannot share one", .0.display())]
    InUse(PathBuf),
    /// The file is not writable.
    #[error("the snapshot {} cannot be written: {}", .0.display(), .1)]
    Unwritable(PathBuf, #[source] io::Error),
    /// The file is not readable.
    #[error("the snapshot {} cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, #[source] io::Error),
    /// A later version wrote it; it is not overwritten.
    #[error("the snapshot {} cannot be used: {}", .0.display(), .1)]
    Newer(PathBuf, #[source] RestoreError),
    /// The file is not usable, and cannot be renamed.
    #[error("the snapshot {} is not usable, and cannot be renamed: {}", .0.display(), .1)]
    CannotSetAside(PathBuf, #[source] io::Error),
    /// The store itself cannot be built.
    #[error("{0}")]
    Build(#[source] BuildError),
}

/// A locked snapshot file, and the result of reading it.
pub(crate) struct OpenedSnapshot {
    pub(super) file: SnapshotFile,
    pub(super) every_ns: u64,
    pub(super) startup: StartupSnapshot,
}

/// Opens the memory store that the settings configure, with the counters of the file.
pub(crate) fn open(
    settings: &MemorySettings,
    snapshot: &SnapshotSettings,
    clock: &Arc<dyn Clock>,
) -> Result<(MemoryStore, OpenedSnapshot), SnapshotError> {
    let file = SnapshotFile::take(snapshot.file.as_ref())?;
    let path = file.path().to_owned();
    let options = memory_options(settings);
    let empty = || MemoryStore::restorable(options, Arc::clone(clock)).map_err(SnapshotError::Build);
    let written = file.open().map_err(|error| SnapshotError::Unreadable(path.clone(), error))?;
    let (store, startup) = match written {
        None => (empty()?, StartupSnapshot::New { file: path }),
        Some(mut written) => match MemoryStore::restore(options, Arc::clone(clock), wall_ns(), &mut written) {
            Ok((store, restored)) => {
                let age = Duration::from_nanos(wall_ns().saturating_sub(restored.written_at_ns));
                (store, StartupSnapshot::Restored { file: path, restored, age })
            }
            Err(RestoreError::Build(error)) => return Err(SnapshotError::Build(error)),
            Err(RestoreError::Io(error)) => return Err(SnapshotError::Unreadable(path, error)),
            Err(error @ RestoreError::NewerVersion { .. }) => return Err(SnapshotError::Newer(path, error)),
            Err(error) => {
                let aside =
                    file.rename_damaged().map_err(|error| SnapshotError::CannotSetAside(path.clone(), error))?;
                (empty()?, StartupSnapshot::SetAside { file: path, aside, error })
            }
        },
    };
    Ok((store, OpenedSnapshot { file, every_ns: snapshot.every_ns, startup }))
}

impl StartupSnapshot {
    /// Returns the log level.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            StartupSnapshot::SetAside { .. } => Level::Warning,
            StartupSnapshot::New { .. } | StartupSnapshot::Restored { .. } => Level::Info,
        }
    }
}

impl fmt::Display for StartupSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartupSnapshot::New { file } => write!(f, "counters are saved to {}, which is new", file.display()),
            StartupSnapshot::Restored { file, restored, age } => {
                let (keys, seconds) = (key_count(restored.keys), age.as_secs());
                write!(f, "counters were restored from {}: {keys}, written {seconds} s ago", file.display())?;
                match restored.lost {
                    0 => Ok(()),
                    lost => write!(f, "; {lost} more did not fit, and start anew"),
                }
            }
            StartupSnapshot::SetAside { file, aside, error } => write!(
                f,
                "every limit starts anew, because {} cannot be used: {error}; it was renamed to {}",
                file.display(),
                aside.display()
            ),
        }
    }
}

fn snapshot_of(store: &StoreSettings) -> Option<&SnapshotSettings> {
    match store {
        StoreSettings::Memory(memory) => memory.snapshot.as_ref(),
        StoreSettings::Redis(_) => None,
    }
}

/// Returns whether both settings have the same file, or none.
pub(crate) fn same_file(one: &StoreSettings, other: &StoreSettings) -> bool {
    snapshot_of(one).map(|snapshot| &snapshot.file) == snapshot_of(other).map(|snapshot| &snapshot.file)
}

/// Returns the active settings with the interval of the new ones, and that interval if there is one.
pub(crate) fn with_every_of(active: &StoreSettings, new: &StoreSettings) -> (StoreSettings, Option<u64>) {
    let mut store = active.clone();
    let every_ns = snapshot_of(new).map(|snapshot| snapshot.every_ns);
    if let (StoreSettings::Memory(memory), Some(every_ns)) = (&mut store, every_ns)
        && let Some(snapshot) = &mut memory.snapshot
    {
        snapshot.every_ns = every_ns;
    }
    (store, every_ns)
}
