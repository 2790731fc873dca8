use std::fmt;

/// How much a memory store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// So many live keys, for each kind of algorithm that is in use. The log or the permits of one key may take
    /// as many bytes as there are entries, and 43,520 at least from 43 entries on. For keys whose limits callers bring
    /// there is room for half as many.
    Entries(usize),
    /// So many bytes in all. Half go to windows, counters, logs and concurrency in equal parts, a sixteenth to keys
    /// whose limits callers bring, the rest to buckets.
    Bytes(usize),
}

/// What happens to a new key when every entry it could take is live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The entry that would be forgotten soonest makes room. It loses what it
    /// had used; who is blocked longest stays blocked.
    #[default]
    EvictFullest,
    /// The new key is refused.
    RefuseNew,
}

/// How a memory store is built.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions {
    /// How much it may hold. One million entries by default.
    pub capacity: Capacity,
    /// What happens when it is full of live keys.
    pub when_full: WhenFull,
}

impl Default for MemoryOptions {
    fn default() -> MemoryOptions {
        MemoryOptions { capacity: Capacity::Entries(1_000_000), when_full: WhenFull::default() }
    }
}

/// Why a memory store cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A capacity of nothing.
    NoCapacity,
    /// More than 2^32 entries.
    CapacityTooLarge,
    /// This processor cannot swap 16 bytes at once.
    Processor,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BuildError::NoCapacity => "a memory store must hold at least 1 entry or 65536 bytes",
            BuildError::CapacityTooLarge => "a memory store must hold at most 4294967296 (2^32) entries",
            BuildError::Processor => "the memory store needs a processor with the cmpxchg16b instruction",
        })
    }
}

impl std::error::Error for BuildError {}
