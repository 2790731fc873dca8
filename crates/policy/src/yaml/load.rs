//! Loads a policy from a file, and reads the files that it names.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{Loaded, MAX_FILE_BYTES, MissingSecrets, Report, parse_with};
use crate::check::words::printable;

/// Why a policy could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{}: error: the file cannot be read: {error}", shown(.path))]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The path is that of a directory.
    #[error("{}: error: this is a directory, not a policy file\nhint: name the file in it", shown(.path))]
    Directory {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is larger than 4 MiB.
    #[error(
        "{}: error: the file is larger than 4 MiB, the limit for policy files\nhint: move the tiers of many clients to a separate file, named by `file:` under `tier`",
        shown(.path)
    )]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is not UTF-8 text.
    #[error(
        "{}:{line}: error: the file is not UTF-8 text from this line on\nhint: save it as UTF-8, or check that it is a policy file",
        shown(.path)
    )]
    NotText {
        /// The path of the file.
        path: PathBuf,
        /// The first line that is not UTF-8, counted from 1.
        line: usize,
    },
    /// The policy has errors.
    #[error(transparent)]
    Invalid(Report),
}

/// Loads and checks the policy in a file. Names of files in it are relative to its directory.
pub fn load(path: &Path) -> Result<Loaded, LoadError> {
    load_with(path, MissingSecrets::Refuse)
}

/// Like [`load`], with a choice for secrets that are missing on this machine.
pub fn load_with(path: &Path, missing: MissingSecrets) -> Result<Loaded, LoadError> {
    let text = read(path)?;
    let beside = path.parent().unwrap_or(Path::new(""));
    parse_with(&text, &path.display().to_string(), Some(beside), missing).map_err(LoadError::Invalid)
}

fn read(path: &Path) -> Result<String, LoadError> {
    let owned = || path.to_owned();
    let io = |error| LoadError::Io { path: owned(), error };
    let file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if metadata.is_dir() {
        return Err(LoadError::Directory { path: owned() });
    }
    // A file that is too large is not read at all. A pipe has no size, so the bytes read are counted too.
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

/// Formats a path for a message, without characters that would break its line.
fn shown(path: &Path) -> String {
    path.display().to_string().chars().map(printable).collect()
}

/// A file that a policy names, and a hash of its content when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The hash of the content; `None` if it could not be read.
    content: Option<u64>,
}

impl NamedFile {
    /// Reads the file. Returns its content, or why it cannot be read.
    pub(super) fn read(path: PathBuf) -> (NamedFile, Result<Vec<u8>, String>) {
        let read = read_file(&path);
        let content = read.as_ref().ok().map(|bytes| {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            hasher.finish()
        });
        (NamedFile { path, content }, read)
    }

    /// Reads the file again. The result is equal to this value if the content has not changed.
    #[must_use]
    pub fn now(&self) -> NamedFile {
        NamedFile::read(self.path.clone()).0
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let io = |error: std::io::Error| error.to_string();
    let file = File::open(path).map_err(io)?;
    // Reading a pipe or a device might never end.
    if !file.metadata().map_err(io)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES { Err("it is larger than 4 MiB".to_owned()) } else { Ok(bytes) }
}
