use tollgate::{Action, Request};

/// What became of a request, as metrics tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It asked and took nothing. Counted apart: it was not let through.
    Peek,
    Decided(Action),
}

impl Outcome {
    /// All of them, each at its [`position`](Outcome::position).
    pub(crate) const ALL: [Outcome; 7] = [
        Outcome::Peek,
        Outcome::Decided(Action::Allow),
        Outcome::Decided(Action::Warn),
        Outcome::Decided(Action::Delay),
        Outcome::Decided(Action::Reject),
        Outcome::Decided(Action::Block),
        Outcome::Decided(Action::Deny),
    ];

    #[inline]
    pub(crate) fn of(request: &Request<'_>, action: Action) -> Outcome {
        match action {
            // Whoever is turned away altogether was not told what remains either.
            Action::Deny => Outcome::Decided(Action::Deny),
            _ if request.cost == 0 => Outcome::Peek,
            action => Outcome::Decided(action),
        }
    }

    #[inline]
    pub(crate) const fn position(self) -> usize {
        match self {
            Outcome::Peek => 0,
            // In the order in which actions are declared.
            Outcome::Decided(action) => 1 + action as usize,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Outcome::Peek => "peek",
            Outcome::Decided(action) => action.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    #[test]
    fn each_stands_at_its_position() {
        for (at, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome.position(), at, "{}", outcome.name());
        }
    }
}
