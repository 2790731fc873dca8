//! A table written down state by state, and filled again.

use std::io;

use super::{Held, LockedTable, SLOTS_PER_KEY, Slot};
use crate::sync::lock;
use crate::table::full::Full;

impl<S: Default + Held> LockedTable<S> {
    /// Shows every live state to `visit`, which is called under a lock; `pause`
    /// is called outside of it. Each state is seen as it stands in one moment,
    /// and nobody waits for more than a few of them.
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
                // In a part that has grown everything stands elsewhere: some of it is shown once more.
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

    /// Puts a state that was written down into its place. Where the key has
    /// one already, the one that is in force for longer holds.
    pub(crate) fn put(&self, hash: u64, free_at: u64, state: S, now: u64) -> Result<(), Full> {
        let mut shard = lock(self.shard_of(hash));
        let found = shard.find(hash);
        if shard.heap_bytes >= self.heap_bytes_per_shard && state.heap_bytes() > 0 {
            self.make_room(&mut shard, found, now)?;
        }
        let Some(at) = found else { return self.settle_down(&mut shard, Slot { hash, free_at, state }, now) };
        if shard.slots[at].free_at < free_at {
            shard.heap_bytes -= shard.slots[at].state.heap_bytes();
            shard.heap_bytes += state.heap_bytes();
            shard.slots[at] = Slot { hash, free_at, state };
        }
        Ok(())
    }
}
