use std::{fmt, io};

use crate::memory::options::BuildError;

/// The reasons why a snapshot cannot be restored.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The input is not a snapshot.
    NotASnapshot,
    /// A later version of tollgate wrote the snapshot.
    NewerVersion {
        /// The version of the format.
        version: u32,
    },
    /// The snapshot is damaged.
    Damaged(&'static str),
    /// The snapshot was written by a program that hashes keys differently, so none of them would be found.
    HashMismatch,
    /// The input cannot be read.
    Io(io::Error),
    /// The store cannot be built.
    Build(BuildError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::NotASnapshot => f.write_str("it is not a snapshot of tollgate"),
            RestoreError::NewerVersion { version } => {
                write!(f, "it has version {version}, written by a later tollgate; this one reads versions 1 and 2")
            }
            RestoreError::Damaged(what) => write!(f, "it is damaged: {what}"),
            RestoreError::HashMismatch => f.write_str("it was written by a tollgate that hashes keys differently"),
            RestoreError::Io(error) => write!(f, "it cannot be read: {error}"),
            RestoreError::Build(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RestoreError::Io(error) => Some(error),
            RestoreError::Build(error) => Some(error),
            _ => None,
        }
    }
}
