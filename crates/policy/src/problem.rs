//! What is wrong with a policy, and a policy in which nothing is.

use std::fmt;
use std::ops::Deref;

use crate::check;
use crate::model::Policy;

/// Something wrong with a policy, or likely wrong: what, where in it, and how to repair it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its short name, under which the documentation explains it.
    pub code: &'static str,
    /// Where in the policy.
    pub place: Place,
    /// What is wrong and what was expected.
    pub message: String,
    /// How to repair it.
    pub hint: Option<String>,
}

/// The way from the top of a policy to one part of it: `rules[3].key[0]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place(pub Vec<Step>);

/// One step of a [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The member of this name.
    Member(String),
    /// The item at this position, counted from 0.
    Item(usize),
}

impl Problem {
    /// An empty hint is none.
    pub(crate) fn new(
        code: &'static str,
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        let hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        Problem { code, place, message: message.into(), hint }
    }
}

impl Place {
    /// The policy as a whole.
    #[must_use]
    pub fn top() -> Place {
        Place::default()
    }

    /// A member of what is here.
    #[must_use]
    pub fn member(&self, name: &str) -> Place {
        self.then(Step::Member(name.to_owned()))
    }

    /// An item of the list that is here.
    #[must_use]
    pub fn item(&self, position: usize) -> Place {
        self.then(Step::Item(position))
    }

    fn then(&self, step: Step) -> Place {
        let mut steps = self.0.clone();
        steps.push(step);
        Place(steps)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Member(name) if at == 0 => f.write_str(name)?,
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Item(position) => write!(f, "[{position}]")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.0.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

/// A policy in which every name exists and every part fits the others.
#[derive(Clone, Debug)]
pub struct CheckedPolicy {
    policy: Policy,
    warnings: Vec<Problem>,
}

/// Everything that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors(pub Vec<Problem>);

impl Policy {
    /// Checks what concerns several parts at once. All errors are told, not only the first.
    pub fn check(self) -> Result<CheckedPolicy, PolicyErrors> {
        let errors = check::errors(&self);
        if !errors.is_empty() {
            return Err(PolicyErrors(errors));
        }
        let warnings = check::warnings(&self);
        Ok(CheckedPolicy { policy: self, warnings })
    }
}

impl CheckedPolicy {
    /// What is legal but likely wrong.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.warnings
    }
}

impl Deref for CheckedPolicy {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        &self.policy
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyErrors {}
