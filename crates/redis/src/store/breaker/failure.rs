use crate::transport::Cause;

/// Why a slot gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was asked.
    Trouble(Cause),
    /// It was not even asked.
    BreakerOpen,
}

impl Failure {
    /// Its name in counters and log lines.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Failure::Trouble(Cause::Timeout) => "timeout",
            Failure::Trouble(Cause::Connection) => "connection",
            Failure::Trouble(Cause::Authentication) => "authentication",
            Failure::Trouble(Cause::OutOfMemory) => "out-of-memory",
            Failure::Trouble(Cause::Unavailable) => "unavailable",
            Failure::Trouble(Cause::Overloaded) => "overloaded",
            Failure::Trouble(Cause::Protocol) => "protocol",
            Failure::Trouble(Cause::WrongType) => "wrong-type",
            Failure::Trouble(Cause::Unreadable) => "unreadable",
            Failure::BreakerOpen => "breaker-open",
        }
    }
}
