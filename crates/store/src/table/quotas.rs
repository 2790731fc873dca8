//! The bucket quotas of a store, each with a tag: the number of the quota, which its entries contain.
//!
//! There are 4,096 tags. A tag is reassigned to another quota only when no limit uses it and no entry contains it:
//!
//! 1. *Only a user of a tag writes it into a slot that does not contain it.* The use is counted from before the first
//!    check under it until after the last.
//! 2. *Tags are reassigned under the write lock, after every slot was inspected.* A slot that was inspected cannot get
//!    an unused tag again.
//! 3. *A reader of an entry of another quota reads the slot again under the read lock:* the tag that the slot contains
//!    then belongs to the quota that is listed then.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Bucket, Quota};

use crate::limit::LimitError;
use crate::sync::{AtomicUsize, Ordering, RwLock, read, write};
use crate::table::cell::{QuotaTag, TAG_BITS};

const TAGS: usize = 1 << TAG_BITS;
/// Each time this many more tags are allocated, unused tags are reclaimed first.
const SWEEP_EVERY: usize = if cfg!(loom) { 2 } else { 1_024 };

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    by_tag: RwLock<Vec<Option<TaggedQuota>>>,
    /// The number of snapshots in progress. While there are any, no tag is reclaimed.
    #[cfg(not(loom))]
    snapshots_in_progress: AtomicUsize,
}

/// A bucket, the first quota that compiled to it, and the number of limits that use it.
#[derive(Debug)]
struct TaggedQuota {
    bucket: Bucket,
    quota: Quota,
    uses: Arc<AtomicUsize>,
}

/// Reserves a tag for its quota: every limit that may write entries with the tag holds one.
pub(crate) struct TagUse(Arc<AtomicUsize>);

impl TagUse {
    fn new(uses: &Arc<AtomicUsize>) -> TagUse {
        uses.fetch_add(1, Ordering::Relaxed);
        TagUse(Arc::clone(uses))
    }
}

impl Drop for TagUse {
    fn drop(&mut self) {
        // A thread that sees the tag unused also sees the entries that were written under it.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for TagUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TagUse")
    }
}

/// The number of allocated tags, and of those in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TagCount {
    pub(crate) allocated: usize,
    pub(crate) used: usize,
}

impl Quotas {
    /// Returns a tag for a bucket. `unmark_live_tags` gets a mark for each tag, set if no limit uses the tag, and must
    /// unmark those that a live entry contains.
    pub(crate) fn tag(
        &self,
        bucket: Bucket,
        quota: &Quota,
        unmark_live_tags: impl FnOnce(&mut Vec<bool>),
    ) -> Result<(QuotaTag, TagUse), LimitError> {
        let mut by_tag = write(&self.by_tag);
        let is_same = |known: &Option<TaggedQuota>| known.as_ref().is_some_and(|known| known.bucket == bucket);
        if let Some((tag, Some(same))) = by_tag.iter().enumerate().find(|(_, known)| is_same(known)) {
            return Ok((tag as QuotaTag, TagUse::new(&same.uses)));
        }
        let mut free = by_tag.iter().position(Option::is_none);
        if free.is_none() && !by_tag.is_empty() && by_tag.len().is_multiple_of(SWEEP_EVERY) {
            self.reclaim(&mut by_tag, unmark_live_tags);
            free = by_tag.iter().position(Option::is_none);
        }
        let tag = free.unwrap_or(by_tag.len());
        if tag >= TAGS {
            return Err(LimitError::TooManyQuotas);
        }
        let uses = Arc::default();
        let tag_use = TagUse::new(&uses);
        let new = Some(TaggedQuota { bucket, quota: *quota, uses });
        match by_tag.get_mut(tag) {
            Some(slot) => *slot = new,
            None => by_tag.push(new),
        }
        Ok((tag as QuotaTag, tag_use))
    }

    fn reclaim(&self, by_tag: &mut [Option<TaggedQuota>], unmark_live_tags: impl FnOnce(&mut Vec<bool>)) {
        #[cfg(not(loom))]
        if self.snapshots_in_progress.load(Ordering::Acquire) > 0 {
            return;
        }
        let mut reclaimable: Vec<bool> =
            by_tag.iter().map(|known| !known.as_ref().is_some_and(TaggedQuota::is_used)).collect();
        // Tag 0 is never reassigned: an empty slot is all zeros, and so contains it.
        reclaimable[0] = false;
        unmark_live_tags(&mut reclaimable);
        for (slot, _) in by_tag.iter_mut().zip(reclaimable).filter(|(_, is_reclaimable)| *is_reclaimable) {
            *slot = None;
        }
    }

    /// Calls `run` with the bucket of a tag. The tag is not reassigned while `run` runs.
    pub(crate) fn with<R>(&self, tag: QuotaTag, run: impl FnOnce(Option<&Bucket>) -> R) -> R {
        let by_tag = read(&self.by_tag);
        run(by_tag.get(usize::from(tag)).and_then(Option::as_ref).map(|known| &known.bucket))
    }

    /// Returns the quota of a tag.
    #[cfg(not(loom))]
    pub(crate) fn quota(&self, tag: QuotaTag) -> Option<Quota> {
        read(&self.by_tag).get(usize::from(tag))?.as_ref().map(|known| known.quota)
    }

    pub(crate) fn count(&self) -> TagCount {
        let by_tag = read(&self.by_tag);
        let allocated = by_tag.iter().flatten();
        TagCount { allocated: allocated.clone().count(), used: allocated.filter(|known| known.is_used()).count() }
    }

    /// Runs `run`, which writes a snapshot, while no tag changes its quota.
    #[cfg(not(loom))]
    pub(crate) fn with_fixed_tags<R>(&self, run: impl FnOnce() -> R) -> R {
        struct SnapshotInProgress<'a>(&'a AtomicUsize);
        impl Drop for SnapshotInProgress<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        // Under the lock, so that a thread that reclaims tags has either finished or will see the snapshot.
        let by_tag = read(&self.by_tag);
        self.snapshots_in_progress.fetch_add(1, Ordering::AcqRel);
        drop(by_tag);
        let _in_progress = SnapshotInProgress(&self.snapshots_in_progress);
        run()
    }
}

impl TaggedQuota {
    fn is_used(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }
}
