//! Where in the file a part of the model stands.

use super::source::Span;
use super::tree::{Node, Value};
use crate::problem::{Place, Step};

/// Maps whose names are chosen by whoever writes the policy: what is wrong
/// with a member is wrong with its name.
const NAMED_BY_THE_POLICY: [&str; 4] = ["deny", "allow", "identity", "headers"];

/// The place in the file, or the nearest one around it.
pub(super) fn span_of(root: &Node, place: &Place) -> Span {
    let mut node = root;
    let mut span = root.span;
    let mut parent = "";
    for step in &place.0 {
        match step {
            Step::Member(name) => {
                // The model has header names in lower case.
                let of_name = |name: &str| node.members().iter().find(|member| member.name.eq_ignore_ascii_case(name));
                let Some(member) = of_name(name).or_else(|| of_name(another_word(name))) else { return span };
                node = &member.value;
                // A list or a map is long; its name is a better place for a caret.
                let by_name = NAMED_BY_THE_POLICY.contains(&parent) || node.scalar().is_none();
                span = if by_name { member.name_span } else { node.span };
                parent = name;
            }
            Step::Item(at) => {
                match &node.value {
                    Value::List(items) => match items.get(*at) {
                        Some(item) => node = item,
                        None => return span,
                    },
                    Value::Map(map) => match map.members.get(*at) {
                        Some(member) => {
                            node = &member.value;
                            span = member.name_span;
                            continue;
                        }
                        None => return span,
                    },
                    // One value may stand for a list of one.
                    Value::Scalar(_) => {}
                }
                span = node.span;
            }
        }
    }
    span
}

/// `limit: unlimited` says what `unlimited: true` says.
fn another_word(name: &str) -> &str {
    if name == "unlimited" { "limit" } else { name }
}
