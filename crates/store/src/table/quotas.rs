//! The bucket quotas of a store, each under a tag that entries carry.
//!
//! There are 4,096 tags. A tag is given to another quota only when no limit
//! uses it and no entry carries it:
//!
//! 1. *Only who uses a tag writes it into a slot that does not carry it.* The
//!    use is counted from before the first check under it until after the last.
//! 2. *Tags change hands under the write lock, after every slot was looked at.*
//!    A slot that was passed does not come to carry an unused tag again.
//! 3. *Who reads an entry of another quota looks at the slot again under the
//!    read lock:* what the slot carries then has the quota that is listed then.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Bucket, Quota};

use crate::limit::LimitError;
use crate::sync::{AtomicUsize, Ordering, RwLock, read, write};
use crate::table::cell::{TAG_BITS, Tag};

const TAGS: usize = 1 << TAG_BITS;
/// Whenever so many more tags are given out, those that nothing uses are taken back first.
const SWEEP_EVERY: usize = if cfg!(loom) { 2 } else { 1_024 };

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    known: RwLock<Vec<Option<Known>>>,
    /// How many write the table down. Meanwhile a tag stays what it is.
    #[cfg(not(loom))]
    readers: AtomicUsize,
}

/// A bucket, the first quota that compiled to it, and how many limits use it.
#[derive(Debug)]
struct Known {
    bucket: Bucket,
    quota: Quota,
    uses: Arc<AtomicUsize>,
}

/// Keeps a tag with its quota: held by what may write entries with it.
pub(crate) struct TagUse(Arc<AtomicUsize>);

impl TagUse {
    fn new(uses: &Arc<AtomicUsize>) -> TagUse {
        uses.fetch_add(1, Ordering::Relaxed);
        TagUse(Arc::clone(uses))
    }
}

impl Drop for TagUse {
    fn drop(&mut self) {
        // Entries that were written under it are seen by a thread that sees that it is not used any more.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for TagUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TagUse")
    }
}

/// How many tags a store has given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TagCount {
    pub(crate) given: usize,
    pub(crate) used: usize,
}

impl Quotas {
    /// A tag for a bucket. `leave_unused` is given the tags that no limit
    /// uses, and must leave those that no entry carries.
    pub(crate) fn tag(
        &self,
        bucket: Bucket,
        quota: &Quota,
        leave_unused: impl FnOnce(&mut Vec<bool>),
    ) -> Result<(Tag, TagUse), LimitError> {
        let mut known = write(&self.known);
        let is_same = |known: &Option<Known>| known.as_ref().is_some_and(|known| known.bucket == bucket);
        if let Some((tag, Some(same))) = known.iter().enumerate().find(|(_, known)| is_same(known)) {
            return Ok((tag as Tag, TagUse::new(&same.uses)));
        }
        let mut free = known.iter().position(Option::is_none);
        if free.is_none() && !known.is_empty() && known.len().is_multiple_of(SWEEP_EVERY) {
            self.take_back(&mut known, leave_unused);
            free = known.iter().position(Option::is_none);
        }
        let tag = free.unwrap_or(known.len());
        if tag >= TAGS {
            return Err(LimitError::TooManyQuotas);
        }
        let uses = Arc::default();
        let tag_use = TagUse::new(&uses);
        let new = Some(Known { bucket, quota: *quota, uses });
        match known.get_mut(tag) {
            Some(place) => *place = new,
            None => known.push(new),
        }
        Ok((tag as Tag, tag_use))
    }

    fn take_back(&self, known: &mut [Option<Known>], leave_unused: impl FnOnce(&mut Vec<bool>)) {
        #[cfg(not(loom))]
        if self.readers.load(Ordering::Acquire) > 0 {
            return;
        }
        let mut unused: Vec<bool> = known.iter().map(|known| !known.as_ref().is_some_and(Known::is_used)).collect();
        // The first tag stays with its quota: an empty slot looks as if it carried it.
        unused[0] = false;
        leave_unused(&mut unused);
        for (place, _) in known.iter_mut().zip(unused).filter(|(_, is_unused)| *is_unused) {
            *place = None;
        }
    }

    /// Shows the quota behind a tag, which stays behind it as long as `read` runs.
    pub(crate) fn with<R>(&self, tag: Tag, look: impl FnOnce(Option<&Bucket>) -> R) -> R {
        let known = read(&self.known);
        look(known.get(usize::from(tag)).and_then(Option::as_ref).map(|known| &known.bucket))
    }

    /// The quota behind a tag.
    #[cfg(not(loom))]
    pub(crate) fn quota(&self, tag: Tag) -> Option<Quota> {
        read(&self.known).get(usize::from(tag))?.as_ref().map(|known| known.quota)
    }

    pub(crate) fn count(&self) -> TagCount {
        let known = read(&self.known);
        let given = known.iter().flatten();
        TagCount { given: given.clone().count(), used: given.filter(|known| known.is_used()).count() }
    }

    /// No tag changes its quota while `run` runs.
    #[cfg(not(loom))]
    pub(crate) fn held_still<R>(&self, run: impl FnOnce() -> R) -> R {
        struct Reader<'a>(&'a AtomicUsize);
        impl Drop for Reader<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        // Under the lock, so that a thread that takes tags back is either done or will see it.
        let known = read(&self.known);
        self.readers.fetch_add(1, Ordering::AcqRel);
        drop(known);
        let _reader = Reader(&self.readers);
        run()
    }
}

impl Known {
    fn is_used(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }
}
