//! A policy out of a file, and the files that it names.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{Loaded, MAX_FILE_BYTES, Report, parse};
use crate::check::words::printable;

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{}: error: the file cannot be read: {error}", shown(.path))]
    Io {
        /// Its name.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// It is a directory.
    #[error("{}: error: this is a directory, not a policy file\nhint: name the file in it", shown(.path))]
    Directory {
        /// Its name.
        path: PathBuf,
    },
    /// It is larger than 4 MiB.
    #[error(
        "{}: error: the file is larger than 4 MiB, which no policy needs to be\nhint: tiers of many clients go into a `file:` of their own",
        shown(.path)
    )]
    TooLarge {
        /// Its name.
        path: PathBuf,
    },
    /// It is not text in UTF-8.
    #[error(
        "{}:{line}: error: the file is not text in UTF-8 from this line on\nhint: save it as UTF-8; is it a policy file at all?",
        shown(.path)
    )]
    NotText {
        /// Its name.
        path: PathBuf,
        /// The line, counted from 1, where it stops being text.
        line: usize,
    },
    /// It was read, and is wrong.
    #[error(transparent)]
    Invalid(Report),
}

/// Reads and checks the policy in a file. Files that it names are looked for beside it.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    let text = read(path)?;
    let beside = path.parent().unwrap_or(Path::new(""));
    parse(&text, &path.display().to_string(), Some(beside)).map_err(LoadError::Invalid)
}

fn read(path: &Path) -> Result<String, LoadError> {
    let owned = || path.to_owned();
    let io = |error| LoadError::Io { path: owned(), error };
    let file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if metadata.is_dir() {
        return Err(LoadError::Directory { path: owned() });
    }
    // Said before anything is read; a pipe has no size, so what comes out of it is measured too.
    let mut bytes = Vec::new();
    if metadata.len() <= MAX_FILE_BYTES {
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    }
    if metadata.len().max(bytes.len() as u64) > MAX_FILE_BYTES {
        return Err(LoadError::TooLarge { path: owned() });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        LoadError::NotText { path: owned(), line: 1 + good.iter().filter(|byte| **byte == b'\n').count() }
    })
}

/// A path for a message: nothing in it can begin a line of its own.
fn shown(path: &Path) -> String {
    path.display().to_string().chars().map(printable).collect()
}

/// A file that a policy names, and what was in it when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Where it is.
    pub path: PathBuf,
    /// A number that is another when the content is; `None` where it could not be read.
    content: Option<u64>,
}

impl NamedFile {
    /// Reads it: what is in it, or why it cannot be had.
    pub(super) fn read(path: PathBuf) -> (NamedFile, Result<Vec<u8>, String>) {
        let read = read_file(&path);
        let content = read.as_ref().ok().map(|bytes| {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            hasher.finish()
        });
        (NamedFile { path, content }, read)
    }

    /// The file as it is now: equal to this if nothing has changed.
    #[must_use]
    pub fn now(&self) -> NamedFile {
        NamedFile::read(self.path.clone()).0
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let io = |error: std::io::Error| error.to_string();
    let file = File::open(path).map_err(io)?;
    // A pipe or a device might never end.
    if !file.metadata().map_err(io)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES { Err("it is larger than 4 MiB".to_owned()) } else { Ok(bytes) }
}
