/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Allow,
    /// It passes, and is told that it should not have.
    Warn,
    /// It passes after a delay.
    Delay,
    /// It is refused.
    Reject,
    /// It is refused for what came before it.
    Block,
    /// It is refused for what it is or who sends it: by a list, or by a rule that denies.
    Deny,
}

impl Action {
    /// Its name in answers and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Warn => "warn",
            Action::Delay => "delay",
            Action::Reject => "reject",
            Action::Block => "block",
            Action::Deny => "deny",
        }
    }

    /// Whether the request passes.
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        matches!(self, Action::Allow | Action::Warn | Action::Delay)
    }
}
