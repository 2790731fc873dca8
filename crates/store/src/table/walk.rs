//! A table written down entry by entry, and filled again.

use std::io;

use tollgate_core::BucketState;

use super::slot_hashes::SlotHashes;
use super::{Line, Place, SLOTS, Table};
use crate::sync::lock;
use crate::table::cell::{Cell, Entry};
use crate::table::full::Full;

impl Table {
    /// The same table, still empty, with what [`walk`](Table::walk) needs.
    pub(crate) fn that_can_be_walked(mut self) -> Table {
        self.hashes = Some(SlotHashes::new(self.lines.len() * SLOTS));
        self
    }

    /// Shows every live entry with the hash of its key. Each is seen as it
    /// stands in one moment, while others are charged; nobody waits for `visit`.
    pub(crate) fn walk(&self, now: u64, mut visit: impl FnMut(u64, Entry) -> io::Result<()>) -> io::Result<()> {
        let Some(hashes) = &self.hashes else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this store was not made to be written down"));
        };
        for cell in self.lines.iter().flat_map(|line| &line.0) {
            // Most slots are free: only a live one is worth a lock.
            if cell.load().is_full_again(now) {
                continue;
            }
            let (hash, entry) = hashes.read_with(self.slot_of(cell), || cell.load());
            if !entry.is_full_again(now) {
                visit(hash, entry)?;
            }
        }
        Ok(())
    }

    /// Puts a state that was written down into its place. Where the key has
    /// one already, the one that takes longer to refill holds.
    pub(crate) fn put(&self, place: Place<'_>, state: BucketState, now: u64) -> Result<(), Full> {
        let _guard = lock(&self.locks[self.home(place.hash) % self.locks.len()]);
        let new = place.entry(state);
        loop {
            if let Some(cell) = self.find(place.hash) {
                let old = cell.load();
                if (old.tat, old.state().part) >= (new.tat, state.part) || cell.swap_if(old, new) {
                    return Ok(());
                }
            } else if self.settle_down(place, new, now)? {
                return Ok(());
            }
        }
    }

    /// The number of a slot of this table.
    pub(super) fn slot_of(&self, cell: &Cell) -> usize {
        let first: *const Line = self.lines.as_ptr();
        (std::ptr::from_ref(cell).addr() - first.addr()) / size_of::<Cell>()
    }
}
