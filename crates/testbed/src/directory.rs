use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory of its own, removed with all that is in it when dropped.
#[derive(Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
}

impl TemporaryDirectory {
    /// Makes one whose name begins with `tollgate` and says what it is for.
    pub fn new(purpose: &str) -> io::Result<TemporaryDirectory> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("tollgate-{purpose}-{}-{number}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(TemporaryDirectory { path })
    }

    /// Where it is.
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
