//! Rules that deny: what they cannot have, because they count nothing.

use super::codes;
use super::problems::Problems;
use crate::model::{Cost, Rule};
use crate::problem::Place;

/// What is said of a member beside `deny`, and how to repair it.
pub(crate) fn beside(member: &str) -> (String, &'static str) {
    let message = format!("`{member}` cannot stand beside `deny`: a rule that denies counts nothing");
    let hint = match member {
        "key" => "say in `when` which requests it denies: `identity: { NAME: true }` asks for an identity",
        _ => "leave it out; a rule that is to limit has `limit` in place of `deny`",
    };
    (message, hint)
}

pub(super) fn check(rule: &Rule, place: &Place, problems: &mut Problems) {
    let members = [
        ("key", !rule.key.is_empty()),
        ("cost", rule.cost != Cost::default()),
        ("on_limit", rule.on_limit.is_some()),
        ("overrides", !rule.overrides.is_empty()),
        ("on_failure", rule.on_failure.is_some()),
    ];
    for (member, _) in members.into_iter().filter(|(_, is_there)| *is_there) {
        let (message, hint) = beside(member);
        problems.add(codes::MISPLACED_MEMBER, place.member(member), message, hint);
    }
}
