use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The largest number of active overrides. Operators set them manually.
pub const MAX_OVERRIDES: usize = 1_000;

/// An override as a store keeps it: a text that is active until a time, on all instances that share the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOverride {
    /// The key of the override. Another override with the same name replaces it.
    pub name: Arc<str>,
    /// The content of the override. The store does not interpret it.
    pub text: Arc<str>,
    /// The end of the override by the store's clock, in nanoseconds since 1970.
    pub until_ns: u64,
}

/// The active overrides, as this instance knows them.
///
/// A reader compares [`version`](SharedOverrides::version), which is one relaxed load, and reads them again only when
/// it has changed.
#[derive(Debug, Default)]
pub struct SharedOverrides {
    version: AtomicU64,
    list: Mutex<Arc<[StoredOverride]>>,
}

/// The reasons why an admin change failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The store does not support this change.
    Unsupported,
    /// There are already [`MAX_OVERRIDES`] overrides.
    TooMany,
    /// The store did not reply in time. The change may have been made; repeating it is safe.
    Timeout,
}

impl SharedOverrides {
    /// Returns the version, which changes whenever the overrides do.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Returns the version and the overrides.
    #[must_use]
    pub fn read(&self) -> (u64, Arc<[StoredOverride]>) {
        let list = self.list();
        // The version changes only under the lock, so it belongs to this list.
        (self.version(), Arc::clone(&list))
    }

    /// Sets an override, and removes those that have ended.
    pub fn set(&self, stored: StoredOverride, now_ns: u64) -> Result<(), ChangeError> {
        let mut list = self.list();
        let stays = |known: &&StoredOverride| known.until_ns > now_ns && known.name != stored.name;
        let mut others: Vec<StoredOverride> = list.iter().filter(stays).cloned().collect();
        if others.len() >= MAX_OVERRIDES {
            return Err(ChangeError::TooMany);
        }
        others.push(stored);
        self.put(&mut list, others);
        Ok(())
    }

    /// Removes an override, if it exists.
    pub fn remove(&self, name: &str) {
        let mut list = self.list();
        if list.iter().any(|known| &*known.name == name) {
            let others = list.iter().filter(|known| &*known.name != name).cloned().collect();
            self.put(&mut list, others);
        }
    }

    /// Replaces all overrides by those of a shared store. The version does not change if they are equal.
    pub fn replace(&self, new: Vec<StoredOverride>) {
        let mut list = self.list();
        if **list != *new {
            self.put(&mut list, new);
        }
    }

    fn put(&self, list: &mut MutexGuard<'_, Arc<[StoredOverride]>>, new: Vec<StoredOverride>) {
        **list = new.into();
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    fn list(&self) -> MutexGuard<'_, Arc<[StoredOverride]>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Unsupported => f.write_str("this store does not support that"),
            ChangeError::TooMany => write!(f, "there are already {MAX_OVERRIDES} overrides: remove some"),
            ChangeError::Timeout => f.write_str("the store did not reply in time: try again"),
        }
    }
}

impl Error for ChangeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, until_ns: u64) -> StoredOverride {
        StoredOverride { name: name.into(), text: "text".into(), until_ns }
    }

    fn names(overrides: &SharedOverrides) -> Vec<String> {
        overrides.read().1.iter().map(|stored| stored.name.to_string()).collect()
    }

    #[test]
    fn setting_an_override_replaces_its_name_and_removes_ended_ones() {
        let overrides = SharedOverrides::default();
        assert_eq!(overrides.set(stored("a", 10), 0), Ok(()));
        assert_eq!(overrides.set(stored("b", 20), 0), Ok(()));
        assert_eq!(overrides.set(stored("a", 30), 0), Ok(()));
        assert_eq!(names(&overrides), ["b", "a"]);
        assert_eq!(overrides.set(stored("c", 40), 20), Ok(()));
        assert_eq!(names(&overrides), ["a", "c"]);
        overrides.remove("a");
        assert_eq!(names(&overrides), ["c"]);
    }

    #[test]
    fn version_changes_only_with_the_overrides() {
        let overrides = SharedOverrides::default();
        let mut versions = vec![overrides.version()];
        let mut changes = |change: &dyn Fn()| {
            change();
            let is_new = versions.last() != Some(&overrides.version());
            versions.push(overrides.version());
            is_new
        };
        assert!(changes(&|| overrides.set(stored("a", 10), 0).unwrap_or_default()));
        assert!(!changes(&|| overrides.remove("b")));
        assert!(!changes(&|| overrides.replace(vec![stored("a", 10)])));
        assert!(changes(&|| overrides.replace(vec![stored("a", 11)])));
        assert!(changes(&|| overrides.remove("a")));
        assert_eq!(overrides.read().0, overrides.version());
    }

    #[test]
    fn overrides_beyond_the_maximum_are_rejected() {
        let overrides = SharedOverrides::default();
        for number in 0..MAX_OVERRIDES {
            assert_eq!(overrides.set(stored(&number.to_string(), 10), 0), Ok(()));
        }
        assert_eq!(overrides.set(stored("one more", 10), 0), Err(ChangeError::TooMany));
        assert_eq!(overrides.set(stored("0", 20), 0), Ok(()));
        assert_eq!(overrides.set(stored("one more", 20), 10), Ok(()));
        assert_eq!(names(&overrides), ["0", "one more"]);
    }
}
