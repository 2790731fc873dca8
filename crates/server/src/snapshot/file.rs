use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::SnapshotError;

/// Whoever reads it could choose keys that meet, so nobody else does.
const OWNER_ONLY: u32 = 0o600;

/// So many files are set aside side by side, and somebody should have looked by then.
const MOST_SET_ASIDE: u32 = 100;

/// A file that only this process writes.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    path: PathBuf,
    /// A file beside it, because the file itself is another one after each
    /// writing. The lock ends with the process, however that ends.
    _lock: File,
}

impl SnapshotFile {
    /// Takes it for this process, and finds out whether it can be written.
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
        // Now, and not when the first snapshot is due: somebody is still looking.
        file.fresh().and_then(|_| fs::remove_file(file.fresh_path())).map_err(unwritable)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What was written last; `None` if nothing was.
    pub(super) fn open(&self) -> io::Result<Option<File>> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Moves what is there out of the way, and says where to.
    pub(super) fn set_aside(&self) -> io::Result<PathBuf> {
        let numbered = (2..=MOST_SET_ASIDE).map(|number| format!(".damaged-{number}"));
        let mut names =
            std::iter::once(".damaged".to_owned()).chain(numbered).map(|ending| beside(&self.path, &ending));
        let Some(free) = names.find(|path| fs::symlink_metadata(path).is_err()) else {
            return Err(io::Error::other(format!("{MOST_SET_ASIDE} others were set aside before it")));
        };
        fs::rename(&self.path, &free)?;
        Ok(free)
    }

    /// Writes it anew. Whatever happens, there is a whole file under its name:
    /// the new one is written beside it, and takes its place when it has
    /// reached the disk.
    pub(super) fn replace<R>(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<R>) -> io::Result<R> {
        let replaced = self.fresh().and_then(|mut fresh| {
            let written = write(&mut fresh)?;
            fresh.sync_all()?;
            fs::rename(self.fresh_path(), &self.path)?;
            Ok(written)
        });
        if replaced.is_err() {
            // It would only take room on a disk that may be full.
            let _ = fs::remove_file(self.fresh_path());
        }
        let written = replaced?;
        // The name has to reach the disk as well.
        File::open(directory_of(&self.path))?.sync_all()?;
        Ok(written)
    }

    /// An empty file beside it. One that a killed process has left is of no use to anybody.
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
    fn a_new_file_takes_the_place_of_the_old_one_and_is_nobody_elses() {
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
    fn what_fails_half_way_leaves_the_old_one() {
        in_directory("failing", |directory| {
            let path = directory.join("counters");
            let file = SnapshotFile::take(&path).unwrap();
            put(&file, "one").unwrap();
            let failed = file.replace(|to| {
                to.write_all(b"tw")?;
                Err::<(), _>(io::Error::other("no room"))
            });
            assert!(failed.is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), "one");
            let names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names.len(), 2, "the file and its lock: {names:?}");
        });
    }

    #[test]
    fn only_one_can_have_it_at_a_time() {
        in_directory("locked", |directory| {
            let path = directory.join("counters");
            let first = SnapshotFile::take(&path).unwrap();
            assert!(matches!(SnapshotFile::take(&path), Err(SnapshotError::InUse(_))));
            drop(first);
            SnapshotFile::take(&path).unwrap();
        });
    }

    #[test]
    fn nothing_that_was_set_aside_is_written_over() {
        in_directory("aside", |directory| {
            let path = directory.join("counters");
            let file = SnapshotFile::take(&path).unwrap();
            for (text, ending) in [("a", ".damaged"), ("b", ".damaged-2"), ("c", ".damaged-3")] {
                fs::write(&path, text).unwrap();
                assert_eq!(file.set_aside().unwrap(), beside(&path, ending));
                assert!(!path.exists());
            }
            assert_eq!(fs::read_to_string(beside(&path, ".damaged")).unwrap(), "a");
        });
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        in_directory("unwritable", |directory| {
            fs::write(directory.join("no-directory"), "").unwrap();
            for name in ["absent/counters", "no-directory/counters"] {
                let path = directory.join(name);
                assert!(matches!(SnapshotFile::take(&path), Err(SnapshotError::Unwritable(at, _)) if at == path));
            }
        });
    }

    #[test]
    fn a_name_alone_is_in_this_directory() {
        assert_eq!(directory_of(Path::new("counters")), Path::new("."));
        assert_eq!(directory_of(Path::new("/var/counters")), Path::new("/var"));
    }
}
