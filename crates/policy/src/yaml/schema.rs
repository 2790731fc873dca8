//! The schema tables of a policy file, and the JSON Schema that is generated from them.
//!
//! Each table is next to the code that reads its members (`reader`). The reader uses it to find unknown and missing
//! members and to suggest names.

use super::reader::POLICY;

/// A map with members of known names.
pub(super) struct MapSchema {
    /// Its name in the JSON Schema and in messages.
    pub(super) name: &'static str,
    /// A description in one sentence.
    pub(super) about: &'static str,
    /// The members with fixed names.
    pub(super) fields: &'static [MemberSchema],
    /// The values of members with any other name, if those are allowed.
    pub(super) others: Option<ValueSchema>,
    /// The members of which exactly one is required.
    pub(super) one_of: &'static [&'static str],
    /// Members that would hold a secret, with what to write instead.
    pub(super) refused: &'static [(&'static str, &'static str)],
    /// Members that do not exist here, with what to write instead.
    pub(super) mistaken: &'static [(&'static str, &'static str)],
}

/// A member.
pub(super) struct MemberSchema {
    pub(super) name: &'static str,
    pub(super) kind: ValueSchema,
    pub(super) about: &'static str,
    pub(super) required: bool,
    /// The default as JSON.
    pub(super) default: Option<&'static str>,
}

/// The type of a value.
pub(super) enum ValueSchema {
    /// A text that is not empty.
    Text,
    /// A text that matches this regular expression.
    Pattern(&'static str),
    Bool,
    /// Only `true`.
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
    /// A list with at least this many items.
    List(&'static ValueSchema, usize),
    /// One value, or a list of at least one.
    OneOrMore(&'static ValueSchema),
    /// A map with members of any name.
    Map(&'static ValueSchema),
    Object(&'static MapSchema),
    AnyOf(&'static [ValueSchema]),
}

pub(super) const fn shape(name: &'static str, about: &'static str, fields: &'static [MemberSchema]) -> MapSchema {
    MapSchema { name, about, fields, others: None, one_of: &[], refused: &[], mistaken: &[] }
}

pub(super) const fn field(name: &'static str, kind: ValueSchema, about: &'static str) -> MemberSchema {
    MemberSchema { name, kind, about, required: false, default: None }
}

pub(super) const fn required(name: &'static str, kind: ValueSchema, about: &'static str) -> MemberSchema {
    MemberSchema { name, kind, about, required: true, default: None }
}

pub(super) const fn defaulted(
    name: &'static str,
    kind: ValueSchema,
    about: &'static str,
    default: &'static str,
) -> MemberSchema {
    MemberSchema { name, kind, about, required: false, default: Some(default) }
}

/// Returns the names of a table of words.
pub(super) const fn names<T: Copy, const COUNT: usize>(words: &[(&'static str, T); COUNT]) -> [&'static str; COUNT] {
    let mut names = [""; COUNT];
    let mut at = 0;
    while at < COUNT {
        names[at] = words[at].0;
        at += 1;
    }
    names
}

impl MapSchema {
    pub(super) fn field(&self, name: &str) -> Option<&'static MemberSchema> {
        self.fields.iter().find(|field| field.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}

/// The identifier of the schema. Editors compare it and never fetch it.
const ID: &str = "urn:tollgate:policy:1";

/// The JSON Schema (draft 2020-12) of a policy file.
///
/// The schema describes the form of a file. Conditions between parts, such as whether an identity exists, are
/// checked only when the file is loaded.
#[must_use]
pub fn json_schema() -> String {
    let mut shapes = Vec::new();
    collect(&POLICY, &mut shapes);
    let definitions = shapes.iter().map(|shape| (shape.name.to_owned(), object(shape))).collect();
    let schema = SchemaJson::map([
        ("$schema", SchemaJson::text("https://json-schema.org/draft/2020-12/schema")),
        ("$id", SchemaJson::text(ID)),
        ("title", SchemaJson::text("tollgate policy")),
        ("$ref", reference(&POLICY)),
        ("$defs", SchemaJson::Map(definitions)),
    ]);
    schema.pretty()
}

/// Collects every map schema that is reachable, in depth-first order.
fn collect(shape: &'static MapSchema, into: &mut Vec<&'static MapSchema>) {
    if into.iter().any(|known| known.name == shape.name) {
        return;
    }
    into.push(shape);
    for kind in shape.fields.iter().map(|field| &field.kind).chain(&shape.others) {
        collect_kind(kind, into);
    }
}

fn collect_kind(kind: &'static ValueSchema, into: &mut Vec<&'static MapSchema>) {
    match kind {
        ValueSchema::Object(shape) => collect(shape, into),
        ValueSchema::List(inner, _) | ValueSchema::OneOrMore(inner) | ValueSchema::Map(inner) => {
            collect_kind(inner, into);
        }
        ValueSchema::AnyOf(kinds) => kinds.iter().for_each(|kind| collect_kind(kind, into)),
        _ => {}
    }
}

fn reference(shape: &MapSchema) -> SchemaJson {
    SchemaJson::Text(format!("#/$defs/{}", shape.name))
}

fn object(shape: &MapSchema) -> SchemaJson {
    let properties = shape.fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let required: Vec<SchemaJson> =
        shape.fields.iter().filter(|field| field.required).map(|field| SchemaJson::text(field.name)).collect();
    let mut members = vec![
        ("type".to_owned(), SchemaJson::text("object")),
        ("description".to_owned(), SchemaJson::text(shape.about)),
        ("properties".to_owned(), SchemaJson::Map(properties)),
        ("additionalProperties".to_owned(), shape.others.as_ref().map_or(SchemaJson::raw(&false), value)),
    ];
    if !required.is_empty() {
        members.push(("required".to_owned(), SchemaJson::List(required)));
    }
    if !shape.one_of.is_empty() {
        let choices = shape
            .one_of
            .iter()
            .map(|name| SchemaJson::map([("required", SchemaJson::List(vec![SchemaJson::text(*name)]))]));
        members.push(("oneOf".to_owned(), SchemaJson::List(choices.collect())));
    }
    SchemaJson::Map(members)
}

fn property(field: &MemberSchema) -> SchemaJson {
    let mut json = value(&field.kind);
    if let SchemaJson::Map(members) = &mut json {
        members.insert(0, ("description".to_owned(), SchemaJson::text(field.about)));
        if let Some(default) = field.default {
            members.push(("default".to_owned(), SchemaJson::raw(&default)));
        }
    }
    json
}

fn value(kind: &ValueSchema) -> SchemaJson {
    match kind {
        // A number is accepted as text: `value: 42`.
        ValueSchema::Text => {
            SchemaJson::map([("type", types(&["string", "number"])), ("minLength", SchemaJson::raw(&1))])
        }
        ValueSchema::Pattern(pattern) => pattern_of(pattern),
        ValueSchema::Bool => SchemaJson::map([("type", SchemaJson::text("boolean"))]),
        ValueSchema::True => SchemaJson::map([("const", SchemaJson::raw(&true))]),
        ValueSchema::Number { min, max } if min == max => SchemaJson::map([("const", SchemaJson::raw(min))]),
        ValueSchema::Number { min, max } => any_of([
            SchemaJson::map([
                ("type", SchemaJson::text("integer")),
                ("minimum", SchemaJson::raw(min)),
                ("maximum", SchemaJson::raw(max)),
            ]),
            // YAML reads digits in groups as text.
            pattern_of("^[0-9]+(_[0-9]+)+$"),
        ]),
        ValueSchema::Rate => pattern_of(
            r"^\s*[0-9][0-9_]*\s*(/|[Pp][Ee][Rr]\b)\s*([0-9][0-9_]*)?\s*[A-Za-z]+(\s+[Bb][Uu][Rr][Ss][Tt]\s+[0-9][0-9_]*)?\s*$",
        ),
        ValueSchema::Duration => pattern_of(r"^[0-9][0-9_]*\s*[A-Za-z]+\s*$"),
        ValueSchema::Network => pattern_of("^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"),
        ValueSchema::Words(words) => {
            SchemaJson::map([("enum", SchemaJson::List(words.iter().map(|word| SchemaJson::text(*word)).collect()))])
        }
        ValueSchema::List(inner, least) => list(inner, *least),
        ValueSchema::OneOrMore(inner) => any_of([value(inner), list(inner, 1)]),
        ValueSchema::Map(inner) => {
            SchemaJson::map([("type", SchemaJson::text("object")), ("additionalProperties", value(inner))])
        }
        ValueSchema::Object(shape) => SchemaJson::map([("$ref", reference(shape))]),
        ValueSchema::AnyOf(kinds) => any_of(kinds.iter().map(value)),
    }
}

fn pattern_of(pattern: &str) -> SchemaJson {
    SchemaJson::map([("type", SchemaJson::text("string")), ("pattern", SchemaJson::text(pattern))])
}

fn types(names: &[&str]) -> SchemaJson {
    SchemaJson::List(names.iter().map(|name| SchemaJson::text(*name)).collect())
}

fn list(inner: &ValueSchema, least: usize) -> SchemaJson {
    SchemaJson::map([
        ("type", SchemaJson::text("array")),
        ("items", value(inner)),
        ("minItems", SchemaJson::raw(&least)),
    ])
}

fn any_of(choices: impl IntoIterator<Item = SchemaJson>) -> SchemaJson {
    SchemaJson::map([("anyOf", SchemaJson::List(choices.into_iter().collect()))])
}

/// A JSON value, as far as a schema needs it.
enum SchemaJson {
    Text(String),
    /// JSON text: numbers, `true`, defaults.
    Raw(String),
    List(Vec<SchemaJson>),
    Map(Vec<(String, SchemaJson)>),
}

impl SchemaJson {
    fn text(text: impl Into<String>) -> SchemaJson {
        SchemaJson::Text(text.into())
    }

    fn raw(value: &dyn ToString) -> SchemaJson {
        SchemaJson::Raw(value.to_string())
    }

    fn map<const N: usize>(members: [(&str, SchemaJson); N]) -> SchemaJson {
        SchemaJson::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Formats the value with two spaces per level and a final line end.
    fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String, level: usize) {
        match self {
            SchemaJson::Text(text) => escape(text, out),
            SchemaJson::Raw(raw) => out.push_str(raw),
            SchemaJson::List(items) => between(out, level, ('[', ']'), items, |item, out| item.write(out, level + 1)),
            SchemaJson::Map(members) => between(out, level, ('{', '}'), members, |(name, value), out| {
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

/// Writes a JSON string. The tables contain no control characters.
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
    fn schema_names_are_unique_and_choices_exist() {
        let mut shapes = Vec::new();
        collect(&POLICY, &mut shapes);
        assert!(shapes.len() > 20, "{}", shapes.len());
        for shape in shapes {
            let mut names: Vec<&str> = shape.names().collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), shape.fields.len(), "{}", shape.name);
            assert!(shape.one_of.iter().all(|name| shape.field(name).is_some()), "{}", shape.name);
            let mut unknown = shape.refused.iter().chain(shape.mistaken);
            assert!(unknown.all(|(name, _)| shape.field(name).is_none()), "{}", shape.name);
        }
    }
}
