use std::fmt;

/// Every entry that a new key could take is live, and the setting says to
/// refuse new keys then. It is the store's trouble, not the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory store is full of live keys: raise its capacity, or let it evict the fullest")
    }
}

impl std::error::Error for Full {}
