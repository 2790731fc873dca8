use std::{fmt, io};

use crate::memory::options::BuildError;

/// Why what was written down cannot be restored.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// It is something else.
    Foreign,
    /// A later version of tollgate wrote it.
    Newer {
        /// The version of the format.
        version: u32,
    },
    /// Not all of it is as it was written.
    Damaged(&'static str),
    /// It was written where keys are hashed in another way, so none of them would be found.
    OtherHashes,
    /// It cannot be read.
    Io(io::Error),
    /// There cannot be a store of this kind.
    Build(BuildError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::Foreign => f.write_str("it is no snapshot of tollgate"),
            RestoreError::Newer { version } => {
                write!(
                    f,
                    "it is of version {version}, which a later tollgate has written; this one knows versions 1 and 2"
                )
            }
            RestoreError::Damaged(what) => write!(f, "it is damaged: {what}"),
            RestoreError::OtherHashes => f.write_str("it was written by a tollgate that hashes keys in another way"),
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
