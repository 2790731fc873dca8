//! Snapshots of the store, to be restored in another process.

use std::io::{self, Read, Write};

use super::MemoryStore;
use crate::clock::{ChosenClock, Clock};
use crate::limit::key::HashSecret;
use crate::memory::options::{BuildError, MemoryOptions};
use crate::snapshot::{self, RestoreError, RestoreSummary, SnapshotSummary};

impl MemoryStore {
    /// Creates an empty store that supports [`write_snapshot`](MemoryStore::write_snapshot). Its buckets take half as
    /// much memory again.
    pub fn restorable(options: MemoryOptions, clock: impl Clock + 'static) -> Result<MemoryStore, BuildError> {
        MemoryStore::built(options, ChosenClock::new(clock), HashSecret::of_process(), true)
    }

    /// Restores a store from a snapshot. It supports snapshots too. `wall_ns` is the time of day.
    ///
    /// - The time that has passed since by the time of day counts as passed; if the time of day went backwards, none
    ///   has. Fixed windows and sliding counters end at their calendar times.
    /// - A limit of the same scope continues with its counts, even under another quota. Counts of scopes that are no
    ///   longer used expire.
    /// - Permits expire with their leases; those without a lease are released. Receipts and waiters belong to the old
    ///   process: their charges remain.
    /// - The capacity may differ. Keys that find no space are lost, according to `options`, and counted.
    ///
    /// ```
    /// use tollgate_store::{ManualClock, MemoryOptions, MemoryStore, Quota};
    ///
    /// let (clock, wall_ns) = (ManualClock::at(1_800_000_000_000_000_000), 1_800_000_000_000_000_000);
    /// let store = MemoryStore::restorable(MemoryOptions::default(), clock.clone())?;
    /// let limit = store.limit("per-user", Quota::token_bucket("5/h".parse()?)?)?;
    /// store.check(&limit, "alice", 2);
    /// let mut snapshot = Vec::new();
    /// store.write_snapshot(wall_ns, &mut snapshot)?;
    ///
    /// let (restored, summary) = MemoryStore::restore(MemoryOptions::default(), clock, wall_ns, &mut &snapshot[..])?;
    /// let limit = restored.limit("per-user", Quota::token_bucket("5/h".parse()?)?)?;
    /// assert_eq!((summary.keys, restored.peek(&limit, "alice").remaining), (1, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(
        options: MemoryOptions,
        clock: impl Clock + 'static,
        wall_ns: u64,
        from: &mut dyn Read,
    ) -> Result<(MemoryStore, RestoreSummary), RestoreError> {
        let (secret, filler) = snapshot::open(from)?;
        let store = MemoryStore::built(options, ChosenClock::new(clock), secret, true).map_err(RestoreError::Build)?;
        let restored = filler.fill(&store.tables, (store.clock.now_ns(), wall_ns))?;
        store.tables.note_restored();
        Ok((store, restored))
    }

    /// Writes a snapshot of all live keys. Checks continue meanwhile: each key is written as it was at one moment
    /// during this call. `wall_ns` is the time of day.
    ///
    /// The snapshot contains the secret with which keys are hashed, so others should not be able to read it.
    pub fn write_snapshot(&self, wall_ns: u64, to: &mut dyn Write) -> io::Result<SnapshotSummary> {
        if !self.tables.has_snapshots() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this store does not support snapshots"));
        }
        snapshot::write(&self.tables, &self.secret, (self.clock.now_ns(), wall_ns), to)
    }
}
