//! Problems of a policy, and policies without errors.

use std::fmt;
use std::ops::Deref;

use crate::check::{self, Remarks};
use crate::model::Policy;

/// An error, warning or note about a policy, with its path and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The code, under which the documentation explains it.
    pub code: &'static str,
    /// The part of the policy that it is about.
    pub path: PolicyPath,
    /// What is wrong, and what was expected.
    pub message: String,
    /// How to repair it.
    pub hint: Option<String>,
}

/// The path of a part of a policy, as in `rules[3].key[0]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyPath(pub Vec<PolicyPathStep>);

/// One step of a [`PolicyPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PolicyPathStep {
    /// The member of this name.
    Member(String),
    /// The item at this index, counted from 0.
    Item(usize),
}

impl Problem {
    /// Creates a problem. An empty hint means no hint.
    pub(crate) fn new(
        code: &'static str,
        path: PolicyPath,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        let hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        Problem { code, path, message: message.into(), hint }
    }
}

impl PolicyPath {
    /// Returns the path of the whole policy.
    #[must_use]
    pub fn top() -> PolicyPath {
        PolicyPath::default()
    }

    /// Returns the path of a member of this part.
    #[must_use]
    pub fn member(&self, name: &str) -> PolicyPath {
        self.then(PolicyPathStep::Member(name.to_owned()))
    }

    /// Returns the path of an item of the list at this path.
    #[must_use]
    pub fn item(&self, position: usize) -> PolicyPath {
        self.then(PolicyPathStep::Item(position))
    }

    fn then(&self, step: PolicyPathStep) -> PolicyPath {
        let mut steps = self.0.clone();
        steps.push(step);
        PolicyPath(steps)
    }
}

impl fmt::Display for PolicyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                PolicyPathStep::Member(name) if at == 0 => f.write_str(name)?,
                PolicyPathStep::Member(name) => write!(f, ".{name}")?,
                PolicyPathStep::Item(position) => write!(f, "[{position}]")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.0.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

/// A policy without errors: every name exists, and no part contradicts another. [`Policy::check`] creates it.
#[derive(Clone, Debug)]
pub struct CheckedPolicy {
    policy: Policy,
    remarks: Remarks,
}

/// All errors of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors(pub Vec<Problem>);

impl Policy {
    /// Checks the policy. Returns all errors, not only the first.
    pub fn check(mut self) -> Result<CheckedPolicy, PolicyErrors> {
        self.resolve_budgets();
        let errors = check::errors(&self);
        if !errors.is_empty() {
            return Err(PolicyErrors(errors));
        }
        let remarks = check::remarks(&self);
        Ok(CheckedPolicy { policy: self, remarks })
    }
}

/// The region of an instance is not one of the regions of its policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnknownRegion {
    message: String,
    /// How to repair it.
    pub hint: String,
}

impl CheckedPolicy {
    /// Sets the region of this instance, in place of that of the policy. A policy without regions stays as it is.
    pub fn in_region(mut self, region: &str) -> Result<CheckedPolicy, UnknownRegion> {
        if let Some(regions) = &mut self.policy.regions {
            if regions.share(region).is_none() {
                let (message, hint) = check::regions::unknown(region, regions);
                return Err(UnknownRegion { message, hint });
            }
            regions.own = Some(region.to_owned());
        }
        Ok(self)
    }

    /// Returns the warnings: settings that are valid but likely mistakes.
    #[must_use]
    pub fn warnings(&self) -> &[Problem] {
        &self.remarks.warnings
    }

    /// Returns the notes: facts about the policy, for information.
    #[must_use]
    pub fn notes(&self) -> &[Problem] {
        &self.remarks.notes
    }

    /// Returns the warnings and notes that the policy accepts by their codes.
    #[must_use]
    pub fn accepted(&self) -> &[Problem] {
        &self.remarks.accepted
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
