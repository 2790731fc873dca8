use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many overrides may be in force at once. Operators set them by hand.
pub const MAX_OVERRIDES: usize = 1_000;

/// An override as a store keeps it: a text that is in force for a time, on every instance that shares the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOverride {
    /// What it is about. Another one of the same name takes its place.
    pub name: Arc<str>,
    /// What it says.
    pub text: Arc<str>,
    /// When it ends, by the store's clock: in nanoseconds since 1970.
    pub until_ns: u64,
}

/// The overrides in force, as this instance knows them.
///
/// A caller that acts on them compares [`version`](SharedOverrides::version), which is one
/// relaxed load, and reads them again only when it has changed.
#[derive(Debug, Default)]
pub struct SharedOverrides {
    version: AtomicU64,
    list: Mutex<Arc<[StoredOverride]>>,
}

/// Why an operator's change was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// This store does not offer it.
    NotOffered,
    /// There are [`MAX_OVERRIDES`] already.
    TooMany,
    /// The store gave no answer in time. Perhaps it was done: it may be asked for again.
    NoAnswer,
}

impl SharedOverrides {
    /// It changes whenever the overrides do.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The overrides, and their version.
    #[must_use]
    pub fn read(&self) -> (u64, Arc<[StoredOverride]>) {
        let list = self.list();
        // It changes under the lock only, so it belongs to these.
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

    /// Removes an override, if it is there.
    pub fn remove(&self, name: &str) {
        let mut list = self.list();
        if list.iter().any(|known| &*known.name == name) {
            let others = list.iter().filter(|known| &*known.name != name).cloned().collect();
            self.put(&mut list, others);
        }
    }

    /// Takes over what a shared store says. The version stays where that is nothing new.
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
            ChangeError::NotOffered => f.write_str("this store does not offer that"),
            ChangeError::TooMany => write!(f, "there are {MAX_OVERRIDES} already: remove some"),
            ChangeError::NoAnswer => f.write_str("the store did not answer in time: try it again"),
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
    fn one_of_the_same_name_takes_its_place_and_what_has_ended_goes() {
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
    fn the_version_changes_with_the_overrides_and_only_then() {
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
    fn there_are_not_more_than_so_many() {
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
