use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tollgate::policy::model::{MemorySettings, SnapshotSettings, StoreSettings};
use tollgate::{BuildError, Clock, MemoryStore, RestoreError, Restored, memory_options};

use super::file::SnapshotFile;
use super::{so_many, wall_ns};
use crate::observe::Level;

/// What a service found when it looked for its counters.
#[derive(Debug)]
pub enum Beginning {
    /// Nothing: it starts for the first time.
    New {
        /// Where it will write them.
        file: PathBuf,
    },
    /// It goes on where another process was.
    Restored {
        /// Where they were.
        file: PathBuf,
        /// What became of them.
        restored: Restored,
        /// How long ago they were written.
        age: Duration,
    },
    /// Something that is of no use. Every limit starts anew.
    SetAside {
        /// Where it was.
        file: PathBuf,
        /// Where it is now.
        aside: PathBuf,
        /// Why it is of no use.
        error: RestoreError,
    },
}

/// Why a service cannot keep its counters in a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Another process writes there.
    #[error("another process keeps its counters in {}: two cannot share a snapshot", .0.display())]
    InUse(PathBuf),
    /// Nothing can be written there.
    #[error("the snapshot {} cannot be written: {}", .0.display(), .1)]
    Unwritable(PathBuf, #[source] io::Error),
    /// What is there cannot be read.
    #[error("the snapshot {} cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, #[source] io::Error),
    /// A later version wrote it, which knows better than to throw it away.
    #[error("the snapshot {} cannot be used: {}", .0.display(), .1)]
    Newer(PathBuf, #[source] RestoreError),
    /// It is of no use, and cannot be moved out of the way.
    #[error("the snapshot {} is of no use, and cannot be set aside: {}", .0.display(), .1)]
    Stuck(PathBuf, #[source] io::Error),
    /// The store itself cannot be built.
    #[error("{0}")]
    Build(#[source] BuildError),
}

/// A file that was taken, and what was in it.
pub(crate) struct Opened {
    pub(super) file: SnapshotFile,
    pub(super) every_ns: u64,
    pub(super) beginning: Beginning,
}

/// The store that settings describe, as the file has it.
pub(crate) fn open(
    settings: &MemorySettings,
    snapshot: &SnapshotSettings,
    clock: &Arc<dyn Clock>,
) -> Result<(MemoryStore, Opened), SnapshotError> {
    let file = SnapshotFile::take(snapshot.file.as_ref())?;
    let path = file.path().to_owned();
    let options = memory_options(settings);
    let empty = || MemoryStore::restorable(options, Arc::clone(clock)).map_err(SnapshotError::Build);
    let written = file.open().map_err(|error| SnapshotError::Unreadable(path.clone(), error))?;
    let (store, beginning) = match written {
        None => (empty()?, Beginning::New { file: path }),
        Some(mut written) => match MemoryStore::restore(options, Arc::clone(clock), wall_ns(), &mut written) {
            Ok((store, restored)) => {
                let age = Duration::from_nanos(wall_ns().saturating_sub(restored.written_at_ns));
                (store, Beginning::Restored { file: path, restored, age })
            }
            Err(RestoreError::Build(error)) => return Err(SnapshotError::Build(error)),
            Err(RestoreError::Io(error)) => return Err(SnapshotError::Unreadable(path, error)),
            Err(error @ RestoreError::Newer { .. }) => return Err(SnapshotError::Newer(path, error)),
            Err(error) => {
                let aside = file.set_aside().map_err(|error| SnapshotError::Stuck(path.clone(), error))?;
                (empty()?, Beginning::SetAside { file: path, aside, error })
            }
        },
    };
    Ok((store, Opened { file, every_ns: snapshot.every_ns, beginning }))
}

impl Beginning {
    /// How grave it is.
    #[must_use]
    pub const fn level(&self) -> Level {
        match self {
            Beginning::SetAside { .. } => Level::Warning,
            Beginning::New { .. } | Beginning::Restored { .. } => Level::Info,
        }
    }
}

impl fmt::Display for Beginning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Beginning::New { file } => write!(f, "counters are kept in {}, which is new", file.display()),
            Beginning::Restored { file, restored, age } => {
                let (keys, seconds) = (so_many(restored.keys), age.as_secs());
                write!(f, "counters go on from {}: {keys}, written {seconds} s ago", file.display())?;
                match restored.lost {
                    0 => Ok(()),
                    lost => write!(f, "; there was no room for {lost} more, which start anew"),
                }
            }
            Beginning::SetAside { file, aside, error } => write!(
                f,
                "every limit starts anew, because {} cannot be used: {error}; it is now {}",
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

/// Whether both keep their counters in the same file, or in none.
pub(crate) fn same_file(one: &StoreSettings, other: &StoreSettings) -> bool {
    snapshot_of(one).map(|snapshot| &snapshot.file) == snapshot_of(other).map(|snapshot| &snapshot.file)
}

/// The settings in force with the interval of the new ones, and that interval if there is one.
pub(crate) fn with_every_of(in_force: &StoreSettings, new: &StoreSettings) -> (StoreSettings, Option<u64>) {
    let mut store = in_force.clone();
    let every_ns = snapshot_of(new).map(|snapshot| snapshot.every_ns);
    if let (StoreSettings::Memory(memory), Some(every_ns)) = (&mut store, every_ns)
        && let Some(snapshot) = &mut memory.snapshot
    {
        snapshot.every_ns = every_ns;
    }
    (store, every_ns)
}
