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

/// What went wrong, and what the person in front of it can do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) what: What,
    pub(crate) hint: Option<String>,
}

/// How it is told.
#[derive(Debug)]
pub(crate) enum What {
    /// One sentence.
    Sentence(String),
    /// Lines that say themselves what they are and where.
    Report(String),
}

impl Failure {
    pub(crate) fn no(what: impl Into<String>) -> Failure {
        Failure { exit: Exit::No, what: What::Sentence(what.into()), hint: None }
    }

    pub(crate) fn wrong_usage(what: impl Into<String>) -> Failure {
        Failure { exit: Exit::WrongUsage, what: What::Sentence(what.into()), hint: None }
    }

    pub(crate) fn failed(what: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, what: What::Sentence(what.into()), hint: None }
    }

    pub(crate) fn report(exit: Exit, report: impl Into<String>) -> Failure {
        Failure { exit, what: What::Report(report.into()), hint: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }
}
