//! What must hold between the parts of a policy, and what is legal but likely wrong.
//!
//! Both are said of the model, so that a policy that was built in a program
//! gets the same answers as one that was read from a file. A place is named as
//! the file would name it.

mod access;
pub(crate) mod capacity;
pub(crate) mod codes;
mod cost;
mod grants;
mod identities;
mod names;
pub(crate) mod nearest;
mod overlap;
mod patterns;
pub(crate) mod periods;
mod problems;
mod rules;
mod state_size;
mod store;
mod syntax;
mod warnings;
mod when;
pub(crate) mod words;

use crate::model::Policy;
use crate::problem::Problem;
use names::Names;
use problems::Problems;

/// Everything that keeps a policy from being used.
pub(crate) fn errors(policy: &Policy) -> Vec<Problem> {
    let mut problems = Problems::default();
    let names = Names::of(policy);
    identities::check(policy, &names, &mut problems);
    access::check(policy, &names, &mut problems);
    rules::check(policy, &names, &mut problems);
    store::check(policy, &mut problems);
    state_size::check(policy, &mut problems);
    problems.into_list()
}

/// What is legal but likely not what was meant. The policy may have errors too.
pub(crate) fn warnings(policy: &Policy) -> Vec<Problem> {
    let mut problems = Problems::default();
    warnings::check(policy, &mut problems);
    problems.into_list()
}
