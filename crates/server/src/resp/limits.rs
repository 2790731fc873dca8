use std::time::Duration;

/// What one connection may send. Everything here is in a stranger's hands, so
/// everything has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespLimits {
    /// The longest command, in bytes as it is sent.
    pub frame_bytes: usize,
    /// The longest argument of a command.
    pub argument_bytes: usize,
    /// The most arguments of a command, its name included.
    pub arguments: usize,
    /// The longest command that a person types, in bytes up to the end of the line.
    pub inline_bytes: usize,
    /// The longest key of `CL.THROTTLE`.
    pub key_bytes: usize,
    /// How long a command may take from its first byte to its last.
    pub command_at_most: Duration,
    /// How long a client may take for the answers that were written to it together.
    pub answers_at_most: Duration,
}

/// Room for a check that says all it can, many times over.
impl Default for RespLimits {
    fn default() -> RespLimits {
        RespLimits {
            frame_bytes: 64 << 10,
            argument_bytes: 16 << 10,
            arguments: 1024,
            inline_bytes: 4 << 10,
            key_bytes: 4 << 10,
            command_at_most: Duration::from_secs(10),
            answers_at_most: Duration::from_secs(30),
        }
    }
}
