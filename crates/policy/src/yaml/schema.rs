//! How the tables of members are written, and the JSON Schema that editors get out of them.
//!
//! Each table stands beside the code that reads its members (`reader`). The reader asks it which members exist, which
//! are missing and which word was meant; the JSON Schema is written from the same tables.

use super::reader::POLICY;

/// A map with members of known names.
pub(super) struct Shape {
    /// What it is called in the schema and in messages.
    pub(super) name: &'static str,
    /// One sentence about it.
    pub(super) about: &'static str,
    /// The members with names of their own.
    pub(super) fields: &'static [Field],
    /// What members of any other name are, if there may be any.
    pub(super) others: Option<Kind>,
    /// Exactly one of these must be there.
    pub(super) one_of: &'static [&'static str],
    /// Members that people try, and why they are refused.
    pub(super) refused: &'static [(&'static str, &'static str)],
}

/// A member.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    pub(super) required: bool,
    /// What holds where it is absent, as JSON.
    pub(super) default: Option<&'static str>,
}

/// What a value may be.
pub(super) enum Kind {
    /// Any text that is not empty.
    Text,
    /// A text of this form.
    Pattern(&'static str),
    Bool,
    /// Only `true`: the member is there or it is not.
    True,
    Number {
        min: u64,
        max: u64,
    },
    Rate,
    Duration,
    /// An address or a network.
    Network,
    Words(&'static [&'static str]),
    /// A list, with at least so many items.
    List(&'static Kind, usize),
    /// One, or a list of them.
    OneOrMore(&'static Kind),
    /// Members of any name.
    Map(&'static Kind),
    Object(&'static Shape),
    AnyOf(&'static [Kind]),
}

pub(super) const fn shape(name: &'static str, about: &'static str, fields: &'static [Field]) -> Shape {
    Shape { name, about, fields, others: None, one_of: &[], refused: &[] }
}

pub(super) const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, about, required: false, default: None }
}

pub(super) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, about, required: true, default: None }
}

pub(super) const fn defaulted(name: &'static str, kind: Kind, about: &'static str, default: &'static str) -> Field {
    Field { name, kind, about, required: false, default: Some(default) }
}

/// The names of words, each with what it means.
pub(super) const fn names<T: Copy, const COUNT: usize>(words: &[(&'static str, T); COUNT]) -> [&'static str; COUNT] {
    let mut names = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        names[at] = words[at].0;
        at += 1;
    }
    names
}

impl Shape {
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

/// Where the schema is published. Editors compare it and never fetch it.
const ID: &str = "urn:tollgate:policy:1";

/// The JSON Schema (draft 2020-12) of a policy file.
///
/// It knows the form of a file. What concerns several parts at once, such as
/// whether an identity exists, only reading the file tells.
#[must_use]
pub fn json_schema() -> String {
    let mut shapes = Vec::new();
    collect(&POLICY, &mut shapes);
    let definitions = shapes.iter().map(|shape| (shape.name.to_owned(), object(shape))).collect();
    let schema = Json::map([
        ("$schema", Json::text("https://json-schema.org/draft/2020-12/schema")),
        ("$id", Json::text(ID)),
        ("title", Json::text("tollgate policy")),
        ("$ref", reference(&POLICY)),
        ("$defs", Json::Map(definitions)),
    ]);
    schema.pretty()
}

/// Every shape that can be reached, in the order in which it is met.
fn collect(shape: &'static Shape, into: &mut Vec<&'static Shape>) {
    if into.iter().any(|known| known.name == shape.name) {
        return;
    }
    into.push(shape);
    for kind in shape.fields.iter().map(|field| &field.kind).chain(&shape.others) {
        collect_kind(kind, into);
    }
}

fn collect_kind(kind: &'static Kind, into: &mut Vec<&'static Shape>) {
    match kind {
        Kind::Object(shape) => collect(shape, into),
        Kind::List(inner, _) | Kind::OneOrMore(inner) | Kind::Map(inner) => collect_kind(inner, into),
        Kind::AnyOf(kinds) => kinds.iter().for_each(|kind| collect_kind(kind, into)),
        _ => {}
    }
}

fn reference(shape: &Shape) -> Json {
    Json::Text(format!("#/$defs/{}", shape.name))
}

fn object(shape: &Shape) -> Json {
    let properties = shape.fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let required: Vec<Json> =
        shape.fields.iter().filter(|field| field.required).map(|field| Json::text(field.name)).collect();
    let mut members = vec![
        ("type".to_owned(), Json::text("object")),
        ("description".to_owned(), Json::text(shape.about)),
        ("properties".to_owned(), Json::Map(properties)),
        ("additionalProperties".to_owned(), shape.others.as_ref().map_or(Json::raw(&false), value)),
    ];
    if !required.is_empty() {
        members.push(("required".to_owned(), Json::List(required)));
    }
    if !shape.one_of.is_empty() {
        let choices = shape.one_of.iter().map(|name| Json::map([("required", Json::List(vec![Json::text(*name)]))]));
        members.push(("oneOf".to_owned(), Json::List(choices.collect())));
    }
    Json::Map(members)
}

fn property(field: &Field) -> Json {
    let mut json = value(&field.kind);
    if let Json::Map(members) = &mut json {
        members.insert(0, ("description".to_owned(), Json::text(field.about)));
        if let Some(default) = field.default {
            members.push(("default".to_owned(), Json::raw(&default)));
        }
    }
    json
}

fn value(kind: &Kind) -> Json {
    match kind {
        // A number is a text where one is expected: `value: 42`.
        Kind::Text => Json::map([("type", types(&["string", "number"])), ("minLength", Json::raw(&1))]),
        Kind::Pattern(pattern) => pattern_of(pattern),
        Kind::Bool => Json::map([("type", Json::text("boolean"))]),
        Kind::True => Json::map([("const", Json::raw(&true))]),
        Kind::Number { min, max } if min == max => Json::map([("const", Json::raw(min))]),
        Kind::Number { min, max } => any_of([
            Json::map([("type", Json::text("integer")), ("minimum", Json::raw(min)), ("maximum", Json::raw(max))]),
            // To YAML, digits in groups are a text.
            pattern_of("^[0-9]+(_[0-9]+)+$"),
        ]),
        Kind::Rate => pattern_of(
            r"^\s*[0-9][0-9_]*\s*(/|[Pp][Ee][Rr]\b)\s*([0-9][0-9_]*)?\s*[A-Za-z]+(\s+[Bb][Uu][Rr][Ss][Tt]\s+[0-9][0-9_]*)?\s*$",
        ),
        Kind::Duration => pattern_of(r"^[0-9][0-9_]*\s*[A-Za-z]+\s*$"),
        Kind::Network => pattern_of("^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"),
        Kind::Words(words) => Json::map([("enum", Json::List(words.iter().map(|word| Json::text(*word)).collect()))]),
        Kind::List(inner, least) => list(inner, *least),
        Kind::OneOrMore(inner) => any_of([value(inner), list(inner, 1)]),
        Kind::Map(inner) => Json::map([("type", Json::text("object")), ("additionalProperties", value(inner))]),
        Kind::Object(shape) => Json::map([("$ref", reference(shape))]),
        Kind::AnyOf(kinds) => any_of(kinds.iter().map(value)),
    }
}

fn pattern_of(pattern: &str) -> Json {
    Json::map([("type", Json::text("string")), ("pattern", Json::text(pattern))])
}

fn types(names: &[&str]) -> Json {
    Json::List(names.iter().map(|name| Json::text(*name)).collect())
}

fn list(inner: &Kind, least: usize) -> Json {
    Json::map([("type", Json::text("array")), ("items", value(inner)), ("minItems", Json::raw(&least))])
}

fn any_of(choices: impl IntoIterator<Item = Json>) -> Json {
    Json::map([("anyOf", Json::List(choices.into_iter().collect()))])
}

/// JSON, as much of it as a schema needs.
enum Json {
    Text(String),
    /// Already JSON: numbers, `true`, defaults.
    Raw(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    fn raw(value: &dyn ToString) -> Json {
        Json::Raw(value.to_string())
    }

    fn map<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// With two spaces for each level, and a line end at the end.
    fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String, level: usize) {
        match self {
            Json::Text(text) => escape(text, out),
            Json::Raw(raw) => out.push_str(raw),
            Json::List(items) => between(out, level, ('[', ']'), items, |item, out| item.write(out, level + 1)),
            Json::Map(members) => between(out, level, ('{', '}'), members, |(name, value), out| {
                escape(name, out);
                out.push_str(": ");
                value.write(out, level + 1);
            }),
        }
    }
}

fn between<T>(out: &mut String, level: usize, ends: (char, char), items: &[T], write: impl Fn(&T, &mut String)) {
    out.push(ends.0);
    for (at, item) in items.iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(level + 1));
        write(item, out);
    }
    if !items.is_empty() {
        out.push('\n');
        out.push_str(&"  ".repeat(level));
    }
    out.push(ends.1);
}

/// The tables have no control characters in them.
fn escape(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once_and_every_choice_exists() {
        let mut shapes = Vec::new();
        collect(&POLICY, &mut shapes);
        assert!(shapes.len() > 20, "{}", shapes.len());
        for shape in shapes {
            let mut names: Vec<&str> = shape.names().collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), shape.fields.len(), "{}", shape.name);
            assert!(shape.one_of.iter().all(|name| shape.field(name).is_some()), "{}", shape.name);
            assert!(shape.refused.iter().all(|(name, _)| shape.field(name).is_none()), "{}", shape.name);
        }
    }
}
