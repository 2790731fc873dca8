use super::Reader;
use crate::check::codes;
use crate::check::members;
use crate::check::words::{all_of, either, nearest, quoted};
use crate::yaml::findings::Span;
use crate::yaml::schema::Shape;
use crate::yaml::tree::{Member, Node};

/// A map whose members are known to be among those of its shape.
pub(super) struct Members<'n> {
    shape: &'static Shape,
    node: &'n Node,
}

impl<'n> Members<'n> {
    /// The value of a member.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.member(name).map(|member| &member.value)
    }

    /// Where a member's name stands; the map itself where there is none.
    pub(super) fn name_span(&self, name: &str) -> Span {
        self.member(name).map_or(self.node.span, |member| member.name_span)
    }

    /// The members without a name of their own.
    pub(super) fn others(&self) -> impl Iterator<Item = &'n Member> {
        let shape = self.shape;
        self.node.members().iter().filter(move |member| shape.field(&member.name).is_none())
    }

    fn member(&self, name: &str) -> Option<&'n Member> {
        debug_assert!(self.shape.field(name).is_some(), "{name} is no member of {}", self.shape.name);
        self.node.member(name)
    }
}

impl Reader<'_> {
    /// The members of a map. What is unknown, missing or one too many is told.
    pub(super) fn members<'n>(&mut self, node: &'n Node, shape: &'static Shape) -> Option<Members<'n>> {
        if !node.is_map() {
            let expected = match shape.name {
                "identities" => "a map of identities, such as { user: { header: X-User-ID } }".to_owned(),
                "access" => "a map of identities, such as { client_ip: 192.0.2.0/24 }".to_owned(),
                _ => format!("a map with {}", either(shape.names())),
            };
            self.wrong_type(node, &expected);
            return None;
        }
        if shape.others.is_none() {
            self.unknown_members(node, shape);
        }
        if !node.lacks_members() {
            self.missing_members(node, shape);
            self.one_of(node, shape);
        }
        Some(Members { shape, node })
    }

    fn unknown_members(&mut self, node: &Node, shape: &'static Shape) {
        for member in node.members().iter().filter(|member| shape.field(&member.name).is_none()) {
            if self.findings.is_full() {
                return;
            }
            let name = quoted(&member.name);
            if let Some((_, hint)) = shape.refused.iter().find(|(refused, _)| **refused == *member.name) {
                let message = format!("{name} is refused: a secret does not belong in a policy file");
                self.error(codes::SECRET_IN_FILE, member.name_span, message, *hint);
                self.findings.hide(member.value.span);
                continue;
            }
            let meant = nearest(&member.name, shape.names());
            let meant = meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`?\n"));
            let hint = format!("{meant}known here: {}", all_of(shape.names()));
            let message = format!("{name} is no member of {}", article(shape));
            self.error(codes::UNKNOWN_MEMBER, member.name_span, message, hint);
        }
    }

    fn missing_members(&mut self, node: &Node, shape: &'static Shape) {
        for field in shape.fields.iter().filter(|field| field.required && node.member(field.name).is_none()) {
            let message = format!("`{}` is missing in {}", field.name, this(shape));
            let hint = format!("add `{}`: {}", field.name, first_lower(field.about));
            self.error(codes::MISSING_MEMBER, node.span, message, hint);
        }
    }

    fn one_of(&mut self, node: &Node, shape: &'static Shape) {
        let mut there = node.members().iter().filter(|member| shape.one_of.contains(&&*member.name));
        match (shape.one_of.is_empty(), there.next(), there.next()) {
            (true, ..) | (false, Some(_), None) => {}
            (false, None, _) => {
                let (message, hint) = members::none_of(&this(shape), shape.one_of);
                self.error(codes::CHOOSE_ONE, node.span, message, hint);
            }
            (false, Some(one), Some(other)) => {
                let (message, hint) = members::one_beside(&other.name, &one.name, shape.one_of);
                self.error(codes::CHOOSE_ONE, other.name_span, message, hint);
            }
        }
    }
}

/// What messages call it. The members of a step or a cost are chosen before they are read.
fn noun(shape: &Shape) -> &'static str {
    match shape.name {
        "cost_header" | "cost_method" | "cost_estimate" => "cost",
        "step_first" | "step_then" | "step_after" => "step",
        name => name,
    }
}

fn this(shape: &Shape) -> String {
    match noun(shape) {
        name @ ("policy" | "rule" | "identity" | "override" | "queue" | "tier" | "store" | "cost" | "step") => {
            format!("this {name}")
        }
        name => format!("`{name}`"),
    }
}

fn article(shape: &Shape) -> String {
    match noun(shape) {
        "policy" => "a policy (at the top of the file)".to_owned(),
        name @ ("identity" | "override") => format!("an {name}"),
        name @ ("rule" | "queue" | "tier" | "store" | "cost" | "step") => format!("a {name}"),
        name => format!("`{name}`"),
    }
}

fn first_lower(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_lowercase);
    first.chain(chars).collect::<String>().trim_end_matches('.').to_owned()
}
