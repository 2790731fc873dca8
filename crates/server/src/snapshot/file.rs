use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::SnapshotError;

/// The file has the hash secret, with which colliding keys can be chosen, so only the owner may read it.
const OWNER_ONLY: u32 = 0o600;

/// The maximum number of damaged files that are kept.
const MAX_DAMAGED_FILES: u32 = 100;

/// A snapshot file that is locked by this process.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    path: PathBuf,
    /// A separate lock file, because every write replaces the snapshot file. The system releases the lock when the
    /// process ends, even if it is killed.
    _lock: File,
}

impl SnapshotFile {
    /// Locks the file, and checks that it is writable.
    pub(super) fn take(path: &Path) -> Result<SnapshotFile, SnapshotError> {
        let unwritable = |error| SnapshotError::Unwritable(path.to_owned(), error);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(OWNER_ONLY);
        let lock = options.open(beside(path, ".lock")).map_err(unwritable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SnapshotError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(unwritable(error)),
        }
        let file = SnapshotFile { path: path.to_owned(), _lock: lock };
        // Checked at startup and not at the first snapshot, because an operator is still watching.
        file.fresh().and_then(|_| fs::remove_file(file.fresh_path())).map_err(unwritable)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the last snapshot; `None` if there is none.
    pub(super) fn open(&self) -> io::Result<Option<File>> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Renames an unusable file, and returns its new name.
    pub(super) fn rename_damaged(&self) -> io::Result<PathBuf> {
        let numbered = (2..=MAX_DAMAGED_FILES).map(|number| format!(".damaged-{number}"));
        let mut names =
            std::iter::once(".damaged".to_owned()).chain(numbered).map(|ending| beside(&self.path, &ending));
        let Some(free) = names.find(|path| fs::symlink_metadata(path).is_err()) else {
            return Err(io::Error::other(format!("{MAX_DAMAGED_FILES} damaged files exist already; delete them")));
        };
        fs::rename(&self.path, &free)?;
        Ok(free)
    }

    /// Replaces the file. A complete file always exists under its name: the new one is written beside it, and renamed
    /// when it is on disk.
    pub(super) fn replace<R>(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<R>) -> io::Result<R> {
        let replaced = self.fresh().and_then(|mut fresh| {
            let written = write(&mut fresh)?;
            fresh.sync_all()?;
            fs::rename(self.fresh_path(), &self.path)?;
            Ok(written)
        });
        if replaced.is_err() {
            // The incomplete file would only use space on a disk that may be full.
            let _ = fs::remove_file(self.fresh_path());
        }
        let written = replaced?;
        // The directory entry has to reach the disk as well.
        File::open(directory_of(&self.path))?.sync_all()?;
        Ok(written)
    }

    /// Creates an empty file beside it. A leftover of a killed process is deleted.
    fn fresh(&self) -> io::Result<File> {
        match fs::remove_file(self.fresh_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(self.fresh_path())
    }

    fn fresh_path(&self) -> PathBuf {
        beside(&self.path, ".new")
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn in_directory(name: &str, test: impl FnOnce(&Path)) {
        let directory = std::env::temp_dir().join(format!("tollgate-snapshot-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        test(&directory);
        fs::remove_dir_all(&directory).unwrap();
    }

    fn put(file: &SnapshotFile, text: &str) -> io::Result<()> {
        file.replace(|to| to.write_all(text.as_bytes()))
    }

    #[test]
    fn snapshot_replaces_the_old_one_with_mode_0600() {
        in_directory("replaced", |directory| {
            let path = directory.join("counters");
            let file = SnapshotFile::take(&path).unwrap();
            assert!(file.open().unwrap().is_none());
            put(&file, "one").unwrap();
            put(&file, "two").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "two");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        });
    }

    #[test]
    fn failed_write_keeps_the_old_snapshot() {
        in_directory("failing", |directory| {
            let path = directory.join("counters");
            let file = SnapshotFile::take(&path).unwrap();
            put(&file, "one").unwrap();
            let failed = file.replace(|to| {
                to.write_all(b"tw")?;
                Err::<(), _>(io::Error::other("no space"))
            });
            assert!(failed.is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), "one");
            let names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names.len(), 2, "the file and its lock: {names:?}");
        });
    }

    #[test]
    fn file_is_locked_by_one_holder_at_a_time() {
        in_directory("locked", |directory| {
            let path = directory.join("counters");
            let first = SnapshotFile::take(&path).unwrap();
            assert!(matches!(SnapshotFile::take(&path), Err(SnapshotError::InUse(_))));
            drop(first);
            SnapshotFile::take(&path).unwrap();
        });
    }

    #[test]
    fn damaged_files_are_never_overwritten() {
        in_directory("aside", |directory| {
            let path = directory.join("counters");
            let file = SnapshotFile::take(&path).unwrap();
            for (text, ending) in [("a", ".damaged"), ("b", ".damaged-2"), ("c", ".damaged-3")] {
                fs::write(&path, text).unwrap();
                assert_eq!(file.rename_damaged().unwrap(), beside(&path, ending));
                assert!(!path.exists());
            }
            assert_eq!(fs::read_to_string(beside(&path, ".damaged")).unwrap(), "a");
        });
    }

    #[test]
    fn unwritable_path_is_an_error() {
        in_directory("unwritable", |directory| {
            fs::write(directory.join("no-directory"), "").unwrap();
            for name in ["absent/counters", "no-directory/counters"] {
                let path = directory.join(name);
                assert!(matches!(SnapshotFile::take(&path), Err(SnapshotError::Unwritable(at, _)) if at == path));
            }
        });
    }

    #[test]
    fn bare_file_name_is_in_the_current_directory() {
        assert_eq!(directory_of(Path::new("counters")), Path::new("."));
        assert_eq!(directory_of(Path::new("/var/counters")), Path::new("/var"));
    }
}
