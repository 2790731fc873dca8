//! The tree of a YAML file, with the position of each value.

use std::rc::Rc;

use super::findings::TextSpan;
use crate::check::words::quoted;
use crate::problem::{PolicyPath, PolicyPathStep};

/// A value. Clones share their content, so an alias costs nothing.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    pub(super) span: TextSpan,
    pub(super) value: YamlValue,
}

#[derive(Clone, Debug)]
pub(super) enum YamlValue {
    Scalar(YamlScalar),
    List(Rc<Vec<YamlNode>>),
    Map(Rc<YamlMap>),
}

#[derive(Debug)]
pub(super) struct YamlMap {
    pub(super) members: Vec<YamlMember>,
    /// Whether all members are here. A member with an invalid name is omitted.
    pub(super) is_whole: bool,
}

/// A value that is neither a list nor a map. Its type depends on the member.
#[derive(Clone, Debug)]
pub(super) struct YamlScalar {
    pub(super) text: Rc<str>,
    /// Whether the value is in quotes, and so always text.
    pub(super) quoted: bool,
}

/// A name and its value in a map.
#[derive(Clone, Debug)]
pub(super) struct YamlMember {
    pub(super) name: Rc<str>,
    pub(super) name_span: TextSpan,
    pub(super) value: YamlNode,
}

impl YamlNode {
    pub(super) fn scalar(&self) -> Option<&YamlScalar> {
        match &self.value {
            YamlValue::Scalar(scalar) => Some(scalar),
            YamlValue::List(_) | YamlValue::Map(_) => None,
        }
    }

    /// Returns the members of a map, and none for other values.
    pub(super) fn members(&self) -> &[YamlMember] {
        match &self.value {
            YamlValue::Map(map) => &map.members,
            YamlValue::Scalar(_) | YamlValue::List(_) => &[],
        }
    }

    pub(super) fn member(&self, name: &str) -> Option<&YamlMember> {
        self.members().iter().find(|member| &*member.name == name)
    }

    /// Whether it is a map with members that could not be read.
    pub(super) fn lacks_members(&self) -> bool {
        matches!(&self.value, YamlValue::Map(map) if !map.is_whole)
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.value, YamlValue::Map(_))
    }

    /// Returns the items of a list, or the value itself as the only item.
    pub(super) fn items(&self) -> &[YamlNode] {
        match &self.value {
            YamlValue::List(items) => items,
            YamlValue::Scalar(_) | YamlValue::Map(_) => std::slice::from_ref(self),
        }
    }

    /// Returns the span of a scalar from character `at` of its text on. Returns the whole span if the text is escaped or
    /// folded in the file.
    pub(super) fn span_from(&self, at: usize) -> TextSpan {
        let Some(scalar) = self.scalar() else { return self.span };
        let quotes = if scalar.quoted { 2 } else { 0 };
        if self.span.width != scalar.text.chars().count() + quotes {
            return self.span;
        }
        let from = self.span.from(at + quotes / 2);
        TextSpan { width: from.width.saturating_sub(quotes / 2).max(1), ..from }
    }

    /// Describes the value, for use after "found" in a message.
    pub(super) fn described(&self) -> String {
        match &self.value {
            YamlValue::Scalar(scalar) if scalar.is_null() && scalar.text.is_empty() => "nothing".to_owned(),
            YamlValue::Scalar(scalar) if scalar.quoted => format!("the text {}", quoted(&scalar.text)),
            YamlValue::Scalar(scalar) => quoted(&scalar.text),
            YamlValue::List(_) => "a list".to_owned(),
            YamlValue::Map(_) => "a map".to_owned(),
        }
    }
}

impl YamlScalar {
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

/// Maps whose member names are chosen by the author of the policy. A problem with a member is shown at its name.
const MAPS_OF_CUSTOM_NAMES: [&str; 6] = ["deny", "allow", "identity", "headers", "path", "method"];

/// Returns the span of a path of the model, or of the nearest existing part around it.
pub(super) fn span_of(root: &YamlNode, path: &PolicyPath) -> TextSpan {
    let mut node = root;
    let mut span = root.span;
    let mut parent = "";
    for step in &path.0 {
        match step {
            PolicyPathStep::Member(name) => {
                // The model stores header names in lower case.
                let of_name = |name: &str| node.members().iter().find(|member| member.name.eq_ignore_ascii_case(name));
                let Some(member) = of_name(name).or_else(|| of_name(synonym(name))) else { return span };
                node = &member.value;
                // A list or a map is long, so the caret is at its name.
                let by_name = MAPS_OF_CUSTOM_NAMES.contains(&parent) || node.scalar().is_none();
                span = if by_name { member.name_span } else { node.span };
                parent = name;
            }
            PolicyPathStep::Item(at) => {
                match &node.value {
                    YamlValue::List(items) => match items.get(*at) {
                        Some(item) => node = item,
                        None => return span,
                    },
                    YamlValue::Map(map) => match map.members.get(*at) {
                        Some(member) => {
                            node = &member.value;
                            span = member.name_span;
                            continue;
                        }
                        None => return span,
                    },
                    // A single value is accepted in place of a list of one.
                    YamlValue::Scalar(_) => {}
                }
                span = node.span;
            }
        }
    }
    span
}

/// The other member with the same meaning: `limit: unlimited` is `unlimited: true`.
fn synonym(name: &str) -> &str {
    if name == "unlimited" { "limit" } else { name }
}
