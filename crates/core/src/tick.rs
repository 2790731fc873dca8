/// The unit of time of a compiled quota.
///
/// In process it is the nanosecond. A store that computes in doubles (Lua) uses microseconds, because nanoseconds since
/// 1970 do not fit in 53 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tick {
    /// 10^-9 seconds.
    Nanosecond,
    /// 10^-6 seconds.
    Microsecond,
}

impl Tick {
    /// Returns the length of a tick in nanoseconds.
    #[must_use]
    pub const fn ns(self) -> u64 {
        match self {
            Tick::Nanosecond => 1,
            Tick::Microsecond => 1_000,
        }
    }
}
