use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tollgate::{RestoreError, Restored};

use super::so_many;
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
