use tollgate::Decision;

/// What was decided about a request, for a front end to render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The rule that applied, if one did.
    pub rule: Option<RuleAnswer>,
}

/// What one rule said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleAnswer {
    /// The rule's name.
    pub name: &'static str,
    /// Its decision. Times are in nanoseconds.
    pub decision: Decision,
}

/// What becomes of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It may pass.
    Allow,
    /// It may not.
    Reject,
}

impl Answer {
    /// What becomes of the request. Where no rule applies, it passes.
    #[must_use]
    pub fn action(&self) -> Action {
        match self.rule {
            Some(rule) if !rule.decision.is_allowed() => Action::Reject,
            Some(_) | None => Action::Allow,
        }
    }
}

impl Action {
    /// Its name towards callers and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Reject => "reject",
        }
    }
}
