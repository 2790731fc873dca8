//! What must hold between the parts of a policy, and what is legal but likely wrong.
//!
//! Both are said of the model, so that a policy that was built in a program
//! gets the same answers as one that was read from a file. A place is named as
//! the file would name it.

pub(crate) mod codes;
pub(crate) mod grants;
mod identities;
pub(crate) mod members;
pub(crate) mod names;
mod rules;
mod store;
mod syntax;
mod warnings;
pub(crate) mod words;

use crate::model::Policy;
use crate::problem::{Place, Problem};
use names::Names;
use words::quoted;

/// Everything that keeps a policy from being used.
pub(crate) fn errors(policy: &Policy) -> Vec<Problem> {
    let names = Names::of(policy);
    found_by(|top| {
        identities::check(policy, &names, top);
        identities::secrets(policy, top);
        rules::check(policy, &names, top);
        store::check(policy, top);
    })
}

/// What is legal but likely not what was meant. The policy may have errors too.
pub(crate) fn warnings(policy: &Policy) -> Vec<Problem> {
    found_by(|top| warnings::check(policy, top))
}

fn found_by(check: impl FnOnce(&mut Reporter<'_>)) -> Vec<Problem> {
    let mut problems = Vec::new();
    check(&mut Reporter { place: Place::top(), problems: &mut problems });
    problems
}

/// More problems are not looked for: a longer list is not read.
const MAX_PROBLEMS: usize = 200;

/// Reports what is wrong at one place of a policy.
struct Reporter<'p> {
    place: Place,
    problems: &'p mut Vec<Problem>,
}

impl Reporter<'_> {
    /// Reports at a member of this place.
    fn member(&mut self, name: &str) -> Reporter<'_> {
        Reporter { place: self.place.member(name), problems: self.problems }
    }

    /// Reports at an item of the list that is here.
    fn item(&mut self, position: usize) -> Reporter<'_> {
        Reporter { place: self.place.item(position), problems: self.problems }
    }

    /// Reports at another place.
    fn at(&mut self, place: Place) -> Reporter<'_> {
        Reporter { place, problems: self.problems }
    }

    /// Checks each item of the list that is here, until there are problems enough.
    fn each<'l, T>(&mut self, list: &'l [T], mut check: impl FnMut(&'l T, &mut Reporter<'_>)) {
        for (at, item) in list.iter().enumerate() {
            if self.is_full() {
                return;
            }
            check(item, &mut self.item(at));
        }
    }

    /// Reports a problem here. An empty hint is none.
    fn add(&mut self, code: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        if !self.is_full() {
            self.problems.push(Problem::new(code, self.place.clone(), message, hint));
        }
    }

    fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }
}
