use std::io;
use std::path::PathBuf;

use tollgate::{BuildError, RestoreError};

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
