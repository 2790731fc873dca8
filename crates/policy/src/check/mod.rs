//! What must hold between the parts of a policy, and what is legal but likely wrong.

pub(crate) mod codes;
pub(crate) mod nearest;
pub(crate) mod periods;
pub(crate) mod words;

use crate::model::Policy;
use crate::problem::Problem;

pub(crate) fn errors(_: &Policy) -> Vec<Problem> {
    Vec::new()
}

pub(crate) fn warnings(_: &Policy) -> Vec<Problem> {
    Vec::new()
}
