use std::process::ExitCode;

/// How the program ends: the only place that knows the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Yes, or done.
    Done = 0,
    /// No: the answer to the question is negative, for example an invalid policy.
    No = 1,
    /// It was asked in a way that cannot be understood.
    WrongUsage = 2,
    /// It was understood and went wrong.
    Failed = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
