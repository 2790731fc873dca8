use std::path::PathBuf;
use std::{fmt, io};

use tollgate::{BuildError, RestoreError};

/// Why a service cannot keep its counters in a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Another process writes there.
    InUse(PathBuf),
    /// Nothing can be written there.
    Unwritable(PathBuf, io::Error),
    /// What is there cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A later version wrote it, which knows better than to throw it away.
    Newer(PathBuf, RestoreError),
    /// It is of no use, and cannot be moved out of the way.
    Stuck(PathBuf, io::Error),
    /// The store itself cannot be built.
    Build(BuildError),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::InUse(path) => {
                write!(f, "another process keeps its counters in {}: two cannot share a snapshot", path.display())
            }
            SnapshotError::Unwritable(path, error) => {
                write!(f, "the snapshot {} cannot be written: {error}", path.display())
            }
            SnapshotError::Unreadable(path, error) => {
                write!(f, "the snapshot {} cannot be read: {error}", path.display())
            }
            SnapshotError::Newer(path, error) => {
                write!(f, "the snapshot {} cannot be used: {error}", path.display())
            }
            SnapshotError::Stuck(path, error) => {
                write!(f, "the snapshot {} is of no use, and cannot be set aside: {error}", path.display())
            }
            SnapshotError::Build(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::InUse(_) => None,
            SnapshotError::Unwritable(_, error)
            | SnapshotError::Unreadable(_, error)
            | SnapshotError::Stuck(_, error) => Some(error),
            SnapshotError::Newer(_, error) => Some(error),
            SnapshotError::Build(error) => Some(error),
        }
    }
}
