//! Snapshots of the memory store, so that a restart does not refill limits.
//!
//! The store defines the content of the file; this module reads and writes it, and handles unusable files.

mod file;
mod metrics;
mod open;
mod writer;

pub(crate) use open::{OpenedSnapshot, open, same_file, with_every_of};
pub use open::{SnapshotError, StartupSnapshot};
pub use writer::{SnapshotEvent, SnapshotWriter};

/// Formats a number of keys.
fn key_count(keys: u64) -> String {
    if keys == 1 { "1 key".to_owned() } else { format!("{keys} keys") }
}

/// Returns the system time in nanoseconds since 1970. The store's clock does not advance while no process runs.
fn wall_ns() -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}
