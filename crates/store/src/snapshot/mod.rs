//! A memory store written down, so that another process goes on where it was.
//!
//! # What is in it
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `tollgate` |
//! | 4 | the version |
//! | 4 | the checksum of the 12 bytes before |
//! | 8 + 8 | the secret that keys are hashed with |
//! | 8 | the hash of a known key, to see that keys are still hashed alike |
//! | 8 + 8 | when it was begun, by the store's clock and by the time of day |
//! | .. | records: a byte that says what it is, then its members |
//! | 1 + .. | the end, with the number of records and of the bytes before it |
//! | 4 | the checksum of everything before |
//!
//! Numbers are little-endian, or in groups of seven bits where they are mostly
//! small. The first 16 bytes are the same in every version to come.
//!
//! Keys are hashes under a secret, and their scopes are part of the hash: so
//! what was counted under a rule that is gone is found by nobody, and forgotten
//! in its time. The numbers of bucket quotas mean something in one store only;
//! the quotas themselves are written before their first entry, and whoever
//! reads them gives them numbers of its own.
//!
//! Keys whose quotas callers chose have records of their own, with the quota in
//! each. Programs from before wrote them among the others. A store that goes on
//! from such a file looks for a caller's key there too, and changes nothing there.
//!
//! Whoever has the secret could choose keys that meet. Keep it from others.

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

/// What became of writing a store down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// How many keys.
    pub keys: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What became of a store that was written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// How many keys go on where they were.
    pub keys: u64,
    /// How many had nothing left to remember: their time has passed.
    pub passed: u64,
    /// How many there was no room for. They are as if untouched.
    pub lost: u64,
    /// How many bucket quotas they were written under.
    pub quotas: usize,
    /// When it was written, in nanoseconds since 1970 by the time of day then.
    pub written_at_ns: u64,
}
