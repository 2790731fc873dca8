use super::PolicyReader;
use crate::check::codes;
use crate::check::members;
use crate::check::words::{all_of, either, nearest, quoted};
use crate::yaml::findings::TextSpan;
use crate::yaml::schema::MapSchema;
use crate::yaml::tree::{YamlMember, YamlNode};

/// A map whose members were checked against its schema.
pub(super) struct KnownMembers<'n> {
    shape: &'static MapSchema,
    node: &'n YamlNode,
}

impl<'n> KnownMembers<'n> {
    /// Returns the value of a member.
    pub(super) fn get(&self, name: &str) -> Option<&'n YamlNode> {
        self.member(name).map(|member| &member.value)
    }

    /// Returns the span of a member's name, or of the map if the member is absent.
    pub(super) fn name_span(&self, name: &str) -> TextSpan {
        self.member(name).map_or(self.node.span, |member| member.name_span)
    }

    /// Iterates over the members without a fixed name.
    pub(super) fn others(&self) -> impl Iterator<Item = &'n YamlMember> {
        let shape = self.shape;
        self.node.members().iter().filter(move |member| shape.field(&member.name).is_none())
    }

    fn member(&self, name: &str) -> Option<&'n YamlMember> {
        debug_assert!(self.shape.field(name).is_some(), "{name} is not a member of {}", self.shape.name);
        self.node.member(name)
    }
}

impl PolicyReader<'_> {
    /// Checks a map against its schema. Reports unknown, missing and conflicting members.
    pub(super) fn members<'n>(&mut self, node: &'n YamlNode, shape: &'static MapSchema) -> Option<KnownMembers<'n>> {
        if !node.is_map() {
            let expected = match shape.name {
                "identities" => "a map of identities, such as { user: { header: X-User-ID } }".to_owned(),
                "access" => "a map of identities, such as { client_ip: 192.0.2.0/24 }".to_owned(),
                _ => format!("a map with {}", some_of(shape)),
            };
            let hint = example(shape.name, node);
            if hint.is_empty() {
                self.wrong_type(node, &expected);
            } else {
                let message = format!("expected {expected}, found {}", node.described());
                self.error(codes::WRONG_TYPE, node.span, message, hint);
            }
            return None;
        }
        if shape.others.is_none() {
            self.unknown_members(node, shape);
        }
        if !node.lacks_members() {
            self.missing_members(node, shape);
            self.one_of(node, shape);
        }
        Some(KnownMembers { shape, node })
    }

    fn unknown_members(&mut self, node: &YamlNode, shape: &'static MapSchema) {
        for member in node.members().iter().filter(|member| shape.field(&member.name).is_none()) {
            if self.findings.is_full() {
                return;
            }
            let name = quoted(&member.name);
            if let Some((_, hint)) = shape.refused.iter().find(|(refused, _)| **refused == *member.name) {
                let message = format!("{name} is refused: a policy file must not contain secrets");
                self.error(codes::SECRET_IN_FILE, member.name_span, message, *hint);
                self.findings.hide(member.value.span);
                continue;
            }
            let mistaken = shape.mistaken.iter().find(|(mistaken, _)| member.name.eq_ignore_ascii_case(mistaken));
            let hint = match (mistaken, nearest(&member.name, shape.names())) {
                (Some((_, instead)), _) => (*instead).to_owned(),
                (None, Some(near)) => format!("did you mean `{near}`?\nknown members: {}", all_of(shape.names())),
                (None, None) => format!("known members: {}", all_of(shape.names())),
            };
            let message = format!("unknown member {name} in {}", article(shape));
            self.error(codes::UNKNOWN_MEMBER, member.name_span, message, hint);
        }
    }

    fn missing_members(&mut self, node: &YamlNode, shape: &'static MapSchema) {
        for field in shape.fields.iter().filter(|field| field.required && node.member(field.name).is_none()) {
            let message = format!("`{}` is missing in {}", field.name, this(shape));
            let hint = match (shape.name, field.name) {
                ("policy", "version") => "add `version: 1` at the top of the file".to_owned(),
                ("rule", "name") => {
                    "add `name`, as in `name: per-ip`; it identifies the rule in responses, metrics and logs".to_owned()
                }
                ("tier", "default") => {
                    "add `default`, as in `default: free`: the tier of clients whose tier is unknown".to_owned()
                }
                ("redis", "nodes") => "add `nodes`, as in `nodes: [redis.internal:6379]`".to_owned(),
                _ => format!("add `{}`: {}", field.name, first_lower(field.about)),
            };
            self.error(codes::MISSING_MEMBER, node.span, message, hint);
        }
    }

    fn one_of(&mut self, node: &YamlNode, shape: &'static MapSchema) {
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

/// The name of a schema in messages. The variants of a step or a cost share one name.
fn noun(shape: &MapSchema) -> &'static str {
    match shape.name {
        "cost_header" | "cost_method" | "cost_path" | "cost_estimate" => "cost",
        "step_first" | "step_then" | "step_after" => "step",
        name => name,
    }
}

fn this(shape: &MapSchema) -> String {
    match noun(shape) {
        name @ ("policy" | "rule" | "budget" | "identity" | "override" | "queue" | "tier" | "store" | "cost"
        | "step") => {
            format!("this {name}")
        }
        name => format!("`{name}`"),
    }
}

fn article(shape: &MapSchema) -> String {
    match noun(shape) {
        "policy" => "the policy (top level)".to_owned(),
        name @ ("identity" | "override") => format!("an {name}"),
        name @ ("rule" | "budget" | "queue" | "tier" | "store" | "cost" | "step") => format!("a {name}"),
        name => format!("`{name}`"),
    }
}

fn first_lower(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_lowercase);
    first.chain(chars).collect::<String>().trim_end_matches('.').to_owned()
}

/// The first members of a schema, as a list in words.
fn some_of(shape: &MapSchema) -> String {
    const SHOWN: usize = 4;
    let names: Vec<&str> = shape.names().collect();
    match names.get(SHOWN) {
        Some(_) => format!("{} and others", all_of(names[..SHOWN].iter().copied()).replace(" and ", ", ")),
        None => either(names),
    }
}

/// A hint with an example, for a value that is not a map.
fn example(name: &str, node: &YamlNode) -> String {
    let is_list = node.scalar().is_none();
    let text = node.scalar().filter(|scalar| !scalar.is_null()).map_or("", |scalar| &*scalar.text);
    // Only a text that is one word is repeated in an example.
    let word = |other: &str| {
        let is_word =
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte));
        if is_word { text.to_owned() } else { other.to_owned() }
    };
    match name {
        "policy" if is_list => "write the list under `rules:`, after a line `version: 1`".to_owned(),
        "policy" => "begin with `version: 1`, followed by `rules:`".to_owned(),
        "rule" => "write `- { name: per-ip, key: client_ip, limit: 60/min }`".to_owned(),
        "identity" if !is_list => format!("name its source, as in `{{ header: {} }}`", word("X-User-ID")),
        "tier" if !is_list => {
            format!("name its source and a default, as in `{{ header: {}, default: free }}`", word("X-Tier"))
        }
        "access" if is_list => "name the identity, as in `{ client_ip: [192.0.2.0/24] }`".to_owned(),
        "access" => format!("name the identity, as in `{{ client_ip: {} }}`", word("192.0.2.0/24")),
        "redis" if !is_list => format!("write `redis: {{ nodes: [{}] }}`", word("redis.internal:6379")),
        "queue" if !is_list => format!("write `queue: {{ size: {} }}`", word("10")),
        _ => String::new(),
    }
}
