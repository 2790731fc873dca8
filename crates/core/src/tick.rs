/// The unit in which a compiled quota counts time.
///
/// In process that is the nanosecond. A store that computes in doubles (Lua)
/// counts microseconds, because nanoseconds since 1970 do not fit 53 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tick {
    /// 10^-9 s
    Nanosecond,
    /// 10^-6 s
    Microsecond,
}

impl Tick {
    /// How many nanoseconds a tick lasts.
    #[must_use]
    pub const fn ns(self) -> u64 {
        match self {
            Tick::Nanosecond => 1,
            Tick::Microsecond => 1_000,
        }
    }
}
