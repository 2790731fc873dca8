use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A new temporary directory, removed with its contents when dropped.
#[derive(Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
}

impl TemporaryDirectory {
    /// Creates a directory whose name begins with `tollgate` and contains the purpose.
    pub fn new(purpose: &str) -> io::Result<TemporaryDirectory> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("tollgate-{purpose}-{}-{number}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(TemporaryDirectory { path })
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
