use crate::exit::Exit;

/// What went wrong, and what the person in front of it can do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn wrong_usage(what: impl Into<String>) -> Failure {
        Failure { exit: Exit::WrongUsage, what: what.into(), hint: None }
    }

    pub(crate) fn failed(what: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, what: what.into(), hint: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }
}
