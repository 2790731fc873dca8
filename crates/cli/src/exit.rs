use std::process::ExitCode;

/// The exit code of the program. No other module knows the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success, or a positive result.
    Done = 0,
    /// A negative result, for example an invalid policy.
    No = 1,
    /// The arguments are invalid.
    WrongUsage = 2,
    /// The command failed.
    Failed = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command did not succeed, with its exit code and a hint.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: FailureText,
    pub(crate) hint: Option<String>,
}

/// The text of a failure.
#[derive(Debug)]
pub(crate) enum FailureText {
    /// One sentence, which is printed after `error: `.
    Sentence(String),
    /// Complete lines with their own positions and severities.
    Report(String),
}

impl Failure {
    pub(crate) fn no(sentence: impl Into<String>) -> Failure {
        Failure { exit: Exit::No, text: FailureText::Sentence(sentence.into()), hint: None }
    }

    pub(crate) fn wrong_usage(sentence: impl Into<String>) -> Failure {
        Failure { exit: Exit::WrongUsage, text: FailureText::Sentence(sentence.into()), hint: None }
    }

    pub(crate) fn failed(sentence: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, text: FailureText::Sentence(sentence.into()), hint: None }
    }

    pub(crate) fn report(exit: Exit, report: impl Into<String>) -> Failure {
        Failure { exit, text: FailureText::Report(report.into()), hint: None }
    }

    /// Returns the sentence or the report, with the hint, for a log line.
    pub(crate) fn sentence(&self) -> String {
        let (FailureText::Sentence(text) | FailureText::Report(text)) = &self.text;
        self.hint.as_ref().map_or_else(|| text.clone(), |hint| format!("{text} (hint: {hint})"))
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }
}
