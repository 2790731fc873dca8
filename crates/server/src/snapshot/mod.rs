//! The memory store in a file, so that a restart does not refill limits.
//!
//! What is in the file is the store's business; here is when it is read and
//! written, and what happens to a file that cannot be used.

mod file;
mod keeper;
mod metrics;
mod open;

pub use keeper::{SnapshotEvent, SnapshotKeeper};
pub use open::{Beginning, SnapshotError};
pub(crate) use open::{Opened, open, same_file, with_every_of};

/// So many keys, in words.
fn so_many(keys: u64) -> String {
    if keys == 1 { "1 key".to_owned() } else { format!("{keys} keys") }
}

/// Nanoseconds since 1970 by the time of day. The store's clock does not know
/// what passes while no process runs.
fn wall_ns() -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}
