//! What a YAML file consists of, each value with its place.

use std::rc::Rc;

use super::findings::Span;
use crate::check::words::quoted;
use crate::problem::{Place, Step};

/// A value. Cloning one shares what it consists of, so an alias costs nothing.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Scalar(Scalar),
    List(Rc<Vec<Node>>),
    Map(Rc<Map>),
}

#[derive(Debug)]
pub(super) struct Map {
    pub(super) members: Vec<Member>,
    /// Whether no member was left out because its name is none.
    pub(super) is_whole: bool,
}

/// What is neither a list nor a map. What it means depends on where it stands.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub(super) text: Rc<str>,
    /// Quotes make a text of anything.
    pub(super) quoted: bool,
}

/// A name and its value in a map.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: Rc<str>,
    pub(super) name_span: Span,
    pub(super) value: Node,
}

impl Node {
    pub(super) fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The members of a map; of anything else there are none.
    pub(super) fn members(&self) -> &[Member] {
        match &self.value {
            Value::Map(map) => &map.members,
            Value::Scalar(_) | Value::List(_) => &[],
        }
    }

    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.members().iter().find(|member| &*member.name == name)
    }

    /// Whether it is a map of which some members could not be read.
    pub(super) fn lacks_members(&self) -> bool {
        matches!(&self.value, Value::Map(map) if !map.is_whole)
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// The items of a list, or the value itself as the only one.
    pub(super) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            Value::Scalar(_) | Value::Map(_) => std::slice::from_ref(self),
        }
    }

    /// Where character number `at` of a scalar's text stands in the file, if
    /// the text stands there as it is; else the whole of it.
    pub(super) fn span_from(&self, at: usize) -> Span {
        let Some(scalar) = self.scalar() else { return self.span };
        let quotes = if scalar.quoted { 2 } else { 0 };
        if self.span.width != scalar.text.chars().count() + quotes {
            return self.span;
        }
        let from = self.span.from(at + quotes / 2);
        Span { width: from.width.saturating_sub(quotes / 2).max(1), ..from }
    }

    /// What it is, to be put after "found".
    pub(super) fn described(&self) -> String {
        match &self.value {
            Value::Scalar(scalar) if scalar.is_null() && scalar.text.is_empty() => "nothing".to_owned(),
            Value::Scalar(scalar) if scalar.quoted => format!("the text {}", quoted(&scalar.text)),
            Value::Scalar(scalar) => quoted(&scalar.text),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

impl Scalar {
    pub(super) fn is_null(&self) -> bool {
        !self.quoted && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }

    pub(super) fn as_bool(&self) -> Option<bool> {
        match &*self.text {
            _ if self.quoted => None,
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        }
    }
}

/// Maps whose names are chosen by whoever writes the policy: what is wrong
/// with a member is wrong with its name.
const NAMED_BY_THE_POLICY: [&str; 4] = ["deny", "allow", "identity", "headers"];

/// Where in the file a part of the model stands, or the nearest place around it.
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
