//! The store written down, and restored in another process.

use std::io::{self, Read, Write};

use super::MemoryStore;
use crate::clock::{ChosenClock, Clock};
use crate::limit::key::HashSecret;
use crate::memory::options::{BuildError, MemoryOptions};
use crate::snapshot::{self, RestoreError, Restored, Written};

impl MemoryStore {
    /// An empty store that [`write_snapshot`](MemoryStore::write_snapshot) can
    /// write down. Its buckets take half as much memory again.
    pub fn restorable(options: MemoryOptions, clock: impl Clock + 'static) -> Result<MemoryStore, BuildError> {
        MemoryStore::built(options, ChosenClock::new(clock), HashSecret::of_process(), true)
    }

    /// A store that goes on where the one was that `from` was written of. It
    /// can be written down in turn. `wall_ns` is the time of day.
    ///
    /// - What has passed since by the time of day has passed. Where that went
    ///   backwards, nothing has. Fixed windows and sliding counters end when
    ///   the calendar says so.
    /// - A limit of the same scope goes on where it was, also with another
    ///   quota. What was counted under scopes that nobody asks for any more is
    ///   forgotten in its time.
    /// - Permits run out with their leases; those without one are let go of.
    ///   Receipts and places in a queue are of the old process: what was
    ///   charged for them stays charged.
    /// - The capacity may be another. What finds no room is lost, as
    ///   `options` say, and counted.
    pub fn restore(
        options: MemoryOptions,
        clock: impl Clock + 'static,
        wall_ns: u64,
        from: &mut dyn Read,
    ) -> Result<(MemoryStore, Restored), RestoreError> {
        let (secret, filler) = snapshot::open(from)?;
        let store = MemoryStore::built(options, ChosenClock::new(clock), secret, true).map_err(RestoreError::Build)?;
        let restored = filler.fill(&store.tables, (store.clock.now_ns(), wall_ns))?;
        store.tables.note_restored();
        Ok((store, restored))
    }

    /// Writes down everything that lives. Checks go on meanwhile: each key is
    /// written as it stood at one moment while this ran. `wall_ns` is the time
    /// of day. What is written holds the secret that keys are hashed with, so
    /// nobody else should be able to read it.
    pub fn write_snapshot(&self, wall_ns: u64, to: &mut dyn Write) -> io::Result<Written> {
        if !self.tables.can_be_walked() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this store was not made to be written down"));
        }
        snapshot::write(&self.tables, &self.secret, (self.clock.now_ns(), wall_ns), to)
    }
}
