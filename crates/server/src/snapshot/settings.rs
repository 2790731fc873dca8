//! What of a snapshot's settings can change while the service runs.

use tollgate::policy::model::{SnapshotSettings, StoreSettings};

fn snapshot_of(store: &StoreSettings) -> Option<&SnapshotSettings> {
    match store {
        StoreSettings::Memory(memory) => memory.snapshot.as_ref(),
        StoreSettings::Redis(_) => None,
    }
}

/// Whether both keep their counters in the same file, or in none.
pub(crate) fn same_file(one: &StoreSettings, other: &StoreSettings) -> bool {
    snapshot_of(one).map(|snapshot| &snapshot.file) == snapshot_of(other).map(|snapshot| &snapshot.file)
}

/// The settings in force with the interval of the new ones, and that interval if there is one.
pub(crate) fn with_every_of(in_force: &StoreSettings, new: &StoreSettings) -> (StoreSettings, Option<u64>) {
    let mut store = in_force.clone();
    let every_ns = snapshot_of(new).map(|snapshot| snapshot.every_ns);
    if let (StoreSettings::Memory(memory), Some(every_ns)) = (&mut store, every_ns)
        && let Some(snapshot) = &mut memory.snapshot
    {
        snapshot.every_ns = every_ns;
    }
    (store, every_ns)
}
