//! Writing a table to a snapshot, state by state, and restoring it.

use std::io;

use super::{LockedTable, SLOTS_PER_KEY, StateSlot, StoredState};
use crate::sync::lock;
use crate::table::full::TableFull;

impl<S: Default + StoredState> LockedTable<S> {
    /// Calls `visit` with every live state under a lock, and `pause` outside of it. Each state is read at one moment,
    /// and no thread waits for more than a few of them.
    pub(crate) fn walk<V>(
        &self,
        now: u64,
        visitor: &mut V,
        visit: impl Fn(&mut V, u64, u64, &S),
        pause: impl Fn(&mut V) -> io::Result<()>,
    ) -> io::Result<()> {
        for shard in &self.shards {
            let (mut first, mut slots) = (0, 0);
            loop {
                let shard = lock(shard);
                // In a shard that has grown all states have moved: some of them are visited again.
                if shard.slots.len() != slots {
                    (first, slots) = (0, shard.slots.len());
                }
                if first >= slots {
                    break;
                }
                let few = shard.slots.iter().skip(first).take(SLOTS_PER_KEY);
                few.filter(|slot| slot.free_at > now)
                    .for_each(|slot| visit(visitor, slot.hash, slot.free_at, &slot.state));
                drop(shard);
                pause(visitor)?;
                first += SLOTS_PER_KEY;
            }
        }
        Ok(())
    }

    /// Restores a state. If the key already has one, the one that expires later stays.
    pub(crate) fn put(&self, hash: u64, free_at: u64, state: S, now: u64) -> Result<(), TableFull> {
        let mut shard = lock(self.shard_of(hash));
        let found = shard.find(hash);
        if shard.heap_bytes >= self.heap_bytes_per_shard && state.heap_bytes() > 0 {
            self.free_heap(&mut shard, found, now)?;
        }
        let Some(index) = found else { return self.insert(&mut shard, StateSlot { hash, free_at, state }, now) };
        if shard.slots[index].free_at < free_at {
            shard.heap_bytes -= shard.slots[index].state.heap_bytes();
            shard.heap_bytes += state.heap_bytes();
            shard.slots[index] = StateSlot { hash, free_at, state };
        }
        Ok(())
    }
}
