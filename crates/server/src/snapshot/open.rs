use std::sync::Arc;
use std::time::Duration;

use tollgate::policy::model::{MemorySettings, SnapshotSettings};
use tollgate::{Clock, MemoryStore, RestoreError, memory_options};

use super::beginning::Beginning;
use super::error::SnapshotError;
use super::file::SnapshotFile;
use super::wall_ns;

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
