use std::fmt;

/// The capacity of a memory store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The number of live keys, for each family of algorithms in use. For keys under callers' limits there is space for
    /// half as many.
    ///
    /// It also bounds the log or the permits of one key: to about one byte for each entry, so to 1 MB in a store of a
    /// million entries. A store of 43 entries or more has at least 43,520 bytes for one key.
    Entries(usize),
    /// The total number of bytes. Half is for windows, counters, logs and concurrency in equal parts, a sixteenth for
    /// keys under callers' limits, the rest for buckets.
    Bytes(usize),
}

/// What happens to a new key when all entries that it could take are live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Of the live entries that the new key could replace, the one that expires soonest is evicted: usually the one
    /// with the least use. In the table of keys under callers' limits it is the least recently used one. The used
    /// amount of the evicted key is lost; the keys that are blocked longest stay blocked. Held permits are never
    /// evicted: a new key that finds no free entry among them is refused.
    #[default]
    EvictLeastUsed,
    /// The new key is refused.
    RefuseNew,
}

/// The options of a memory store.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions {
    /// The capacity. The default is one million entries.
    pub capacity: Capacity,
    /// What happens when the store is full of live keys.
    pub when_full: WhenFull,
}

impl Default for MemoryOptions {
    fn default() -> MemoryOptions {
        MemoryOptions { capacity: Capacity::Entries(1_000_000), when_full: WhenFull::default() }
    }
}

/// The reasons why a memory store cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The capacity is too small: no entry, or less than 64 KiB.
    NoCapacity,
    /// The capacity is more than 2^32 entries or 2^40 bytes.
    CapacityTooLarge,
    /// The processor has no compare-and-swap of 16 bytes.
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
