//! Patterns of values: of which identity they are.

use super::codes;
use super::names::Names;
use super::problems::Problems;
use super::words::{either, quoted};
use crate::model::{IdentitySource, TextPattern};
use crate::problem::Place;

/// More are not listed in a hint.
const MAX_LISTED: usize = 4;

/// Says so where a pattern for the first of several identities does not name the one that it means: a value of one
/// of them would get what is meant for another.
pub(super) fn check(
    identity: &str,
    pattern: &str,
    names: &Names<'_>,
    place: impl FnOnce() -> Place,
    problems: &mut Problems,
) {
    let Some(IdentitySource::First(_)) = names.source(identity) else { return };
    let known = found_under(identity, names);
    let names_one = |name: &&str| pattern.strip_prefix(*name).is_some_and(|rest| rest.starts_with('='));
    if pattern == ANY || known.iter().any(names_one) {
        return;
    }
    let message =
        format!("{} does not say of which identity: {} is the first of several", quoted(pattern), quoted(identity));
    // A caller that sets the identity itself is rare, and knows its name.
    let listed = known.iter().filter(|name| **name != identity).take(MAX_LISTED);
    let meant: Vec<String> = listed.map(|name| format!("{name}={pattern}")).collect();
    let hint = format!("write {}", either(meant.iter().map(String::as_str)));
    problems.add(codes::VALUE_WITHOUT_IDENTITY, place(), message, hint);
}

/// The same for each of a list.
pub(super) fn check_each(
    identity: &str,
    patterns: &[TextPattern],
    names: &Names<'_>,
    place: &Place,
    problems: &mut Problems,
) {
    for (at, pattern) in patterns.iter().enumerate() {
        check(identity, &pattern.0, names, || place.item(at), problems);
    }
}

/// It means every value of every identity, so it confuses none with another.
const ANY: &str = "*";

/// The identities under which a value may be found: those of the list, the lists among them spread out, or itself
/// where a caller sets it.
fn found_under<'p>(identity: &'p str, names: &Names<'p>) -> Vec<&'p str> {
    let (mut found, mut met, mut ahead) = (Vec::new(), Vec::new(), vec![identity]);
    while let Some(name) = ahead.pop() {
        if met.contains(&name) {
            continue;
        }
        met.push(name);
        match names.source(name) {
            Some(IdentitySource::First(inner)) => ahead.extend(inner.iter().rev().map(String::as_str)),
            _ => found.push(name),
        }
    }
    found.push(identity);
    found
}
