use std::fmt;
use std::ops::Deref;

use crate::check;
use crate::model::Policy;
use crate::problem::Problem;

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
