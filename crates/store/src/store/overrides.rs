use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many notices may stand at once. They are put up by people, by hand.
pub const MOST_NOTICES: usize = 1_000;

/// A text that holds for a time, known to everybody who shares a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it is about. Another one of the same name takes its place.
    pub name: Arc<str>,
    /// What it says.
    pub text: Arc<str>,
    /// When it ends, by the store's clock: in nanoseconds since 1970.
    pub until_ns: u64,
}

/// The notices that stand at present, as this instance knows them.
///
/// Whoever acts on them compares [`version`](Board::version), which is one
/// relaxed load, and reads them again only when it is another.
#[derive(Debug, Default)]
pub struct Board {
    version: AtomicU64,
    notices: Mutex<Arc<[Notice]>>,
}

/// Why an operator's change was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// This store does not offer it.
    NotOffered,
    /// There are [`MOST_NOTICES`] already.
    TooMany,
    /// The store gave no answer in time. Perhaps it was done: it may be asked for again.
    NoAnswer,
}

impl Board {
    /// Another one whenever the notices are others.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The notices, and the version that they are of.
    #[must_use]
    pub fn read(&self) -> (u64, Arc<[Notice]>) {
        let notices = self.notices();
        // It changes under the lock only, so it belongs to these.
        (self.version(), Arc::clone(&notices))
    }

    /// Puts up a notice, less what has ended.
    pub fn post(&self, notice: Notice, now_ns: u64) -> Result<(), ChangeError> {
        let mut notices = self.notices();
        let stays = |known: &&Notice| known.until_ns > now_ns && known.name != notice.name;
        let mut others: Vec<Notice> = notices.iter().filter(stays).cloned().collect();
        if others.len() >= MOST_NOTICES {
            return Err(ChangeError::TooMany);
        }
        others.push(notice);
        self.set(&mut notices, others);
        Ok(())
    }

    /// Takes a notice down, if it stands.
    pub fn remove(&self, name: &str) {
        let mut notices = self.notices();
        if notices.iter().any(|known| &*known.name == name) {
            let others = notices.iter().filter(|known| &*known.name != name).cloned().collect();
            self.set(&mut notices, others);
        }
    }

    /// Takes over what a shared board says. The version stays where that is nothing new.
    pub fn replace(&self, new: Vec<Notice>) {
        let mut notices = self.notices();
        if **notices != *new {
            self.set(&mut notices, new);
        }
    }

    fn set(&self, notices: &mut MutexGuard<'_, Arc<[Notice]>>, new: Vec<Notice>) {
        **notices = new.into();
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    fn notices(&self) -> MutexGuard<'_, Arc<[Notice]>> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::NotOffered => f.write_str("this store does not offer that"),
            ChangeError::TooMany => write!(f, "there are {MOST_NOTICES} already: remove some"),
            ChangeError::NoAnswer => f.write_str("the store did not answer in time: try it again"),
        }
    }
}

impl Error for ChangeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(name: &str, until_ns: u64) -> Notice {
        Notice { name: name.into(), text: "text".into(), until_ns }
    }

    fn names(board: &Board) -> Vec<String> {
        board.read().1.iter().map(|notice| notice.name.to_string()).collect()
    }

    #[test]
    fn one_of_the_same_name_takes_its_place_and_what_has_ended_goes() {
        let board = Board::default();
        assert_eq!(board.post(notice("a", 10), 0), Ok(()));
        assert_eq!(board.post(notice("b", 20), 0), Ok(()));
        assert_eq!(board.post(notice("a", 30), 0), Ok(()));
        assert_eq!(names(&board), ["b", "a"]);
        assert_eq!(board.post(notice("c", 40), 20), Ok(()));
        assert_eq!(names(&board), ["a", "c"]);
        board.remove("a");
        assert_eq!(names(&board), ["c"]);
    }

    #[test]
    fn the_version_changes_with_the_notices_and_only_then() {
        let board = Board::default();
        let mut versions = vec![board.version()];
        let mut changes = |change: &dyn Fn()| {
            change();
            let is_new = versions.last() != Some(&board.version());
            versions.push(board.version());
            is_new
        };
        assert!(changes(&|| board.post(notice("a", 10), 0).unwrap_or_default()));
        assert!(!changes(&|| board.remove("b")));
        assert!(!changes(&|| board.replace(vec![notice("a", 10)])));
        assert!(changes(&|| board.replace(vec![notice("a", 11)])));
        assert!(changes(&|| board.remove("a")));
        assert_eq!(board.read().0, board.version());
    }

    #[test]
    fn there_are_not_more_than_so_many() {
        let board = Board::default();
        for number in 0..MOST_NOTICES {
            assert_eq!(board.post(notice(&number.to_string(), 10), 0), Ok(()));
        }
        assert_eq!(board.post(notice("one more", 10), 0), Err(ChangeError::TooMany));
        assert_eq!(board.post(notice("0", 20), 0), Ok(()));
        assert_eq!(board.post(notice("one more", 20), 10), Ok(()));
        assert_eq!(names(&board), ["0", "one more"]);
    }
}
