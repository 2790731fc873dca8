//! Writing a table to a snapshot, entry by entry, and restoring it.

use std::io;

use tollgate_core::BucketState;

use super::slot_hashes::SlotHashes;
use super::{BucketKey, BucketTable, SLOTS, SlotLine};
use crate::sync::lock;
use crate::table::cell::{BucketEntry, Cell};
use crate::table::full::TableFull;

impl BucketTable {
    /// Returns the same table, still empty, with the hashes that [`walk`](BucketTable::walk) needs.
    pub(crate) fn with_snapshots(mut self) -> BucketTable {
        self.hashes = Some(SlotHashes::new(self.lines.len() * SLOTS));
        self
    }

    /// Calls `visit` with every live entry and the hash of its key. Each entry is read atomically while others are
    /// charged; no thread waits for `visit`.
    pub(crate) fn walk(&self, now: u64, mut visit: impl FnMut(u64, BucketEntry) -> io::Result<()>) -> io::Result<()> {
        let Some(hashes) = &self.hashes else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this store does not support snapshots"));
        };
        for cell in self.lines.iter().flat_map(|line| &line.0) {
            // Most slots are free: only a live one is worth taking a lock.
            if cell.load().is_expired(now) {
                continue;
            }
            let (hash, entry) = hashes.read_with(self.slot_of(cell), || cell.load());
            if !entry.is_expired(now) {
                visit(hash, entry)?;
            }
        }
        Ok(())
    }

    /// Restores an entry. If the key already has one, the one that takes longer to refill stays.
    pub(crate) fn put(&self, key: BucketKey<'_>, state: BucketState, now: u64) -> Result<(), TableFull> {
        let _guard = lock(&self.locks[self.home(key.hash) % self.locks.len()]);
        let new = key.entry(state);
        loop {
            if let Some(cell) = self.find(key.hash) {
                let old = cell.load();
                if (old.tat, old.state().part) >= (new.tat, state.part) || cell.swap_if(old, new) {
                    return Ok(());
                }
            } else if self.insert(key, new, now)? {
                return Ok(());
            }
        }
    }

    /// Returns the number of a slot in this table.
    pub(super) fn slot_of(&self, cell: &Cell) -> usize {
        let first: *const SlotLine = self.lines.as_ptr();
        (std::ptr::from_ref(cell).addr() - first.addr()) / size_of::<Cell>()
    }
}
