use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::MAX_FILE_BYTES;

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
