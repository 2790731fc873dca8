//! Snapshots of a memory store, so that another process continues with its counts.
//!
//! # Format
//!
//! | bytes | content |
//! | --- | --- |
//! | 8 | `tollgate` |
//! | 4 | the version |
//! | 4 | the checksum of the 12 bytes before |
//! | 8 + 8 | the secret with which keys are hashed |
//! | 8 | the hash of a known key, to verify that keys are still hashed alike |
//! | 8 + 8 | the start time, by the store's clock and by the time of day |
//! | .. | records: a byte for the kind, then the members |
//! | 1 + .. | the end, with the number of records and of the bytes before it |
//! | 4 | the checksum of everything before |
//!
//! Numbers are little-endian, or in groups of seven bits where they are usually small. The first 16 bytes are the same
//! in all future versions.
//!
//! Keys are hashes under a secret, and their scopes are part of the hash: the counts of a removed rule are never found,
//! and expire. The tags of bucket quotas are valid in one store only; the quotas themselves are written before their
//! first entry, and the reader gives them new tags.
//!
//! Keys under callers' limits have separate records, with the quota in each. Earlier versions wrote them among the
//! others. A store that was restored from such a file also searches there for a caller's key, and changes nothing
//! there.
//!
//! A reader of the secret could choose colliding keys. Keep the file private.

mod checksum;
mod decoder;
mod encoder;
mod error;
mod header;
mod quota_record;
mod reader;
mod records;
mod time_shift;
mod writer;

pub use error::RestoreError;
pub(crate) use reader::open;
pub(crate) use writer::write;

/// The result of writing a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// The number of keys written.
    pub keys: u64,
    /// The number of bytes written.
    pub bytes: u64,
}

/// The result of restoring a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreSummary {
    /// The number of restored keys.
    pub keys: u64,
    /// The number of keys that had already expired.
    pub expired: u64,
    /// The number of keys for which there was no space. They are unused again.
    pub lost: u64,
    /// The number of bucket quotas under which the keys were counted.
    pub quotas: usize,
    /// The time when the snapshot was written, in nanoseconds since 1970 by the time of day then.
    pub written_at_ns: u64,
}
