//! The published JSON schema agrees with the reader.

#![cfg(all(feature = "yaml", feature = "jwt"))]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value, json};
use tollgate_policy::json_schema;

const PUBLISHED: &str = "../../docs/policy.schema.json";
const COMMAND: &str = "UPDATE_SCHEMA=1 cargo test -p tollgate-policy --all-features --test schema";

/// Converts a file as editors do: YAML with the types of its core schema.
fn as_json(text: &str) -> Value {
    let mut parser = Parser::new_from_str(text);
    let mut anchors = std::collections::HashMap::new();
    loop {
        match parser.next_event().unwrap().unwrap().0 {
            Event::StreamStart | Event::DocumentStart(_) => {}
            event => return value(event, &mut parser, &mut anchors),
        }
    }
}

type Anchors = std::collections::HashMap<usize, Value>;

fn value(event: Event<'_>, parser: &mut Parser<'_, saphyr_parser::StrInput<'_>>, anchors: &mut Anchors) -> Value {
    let mut next = |anchors: &mut Anchors| match parser.next_event().unwrap().unwrap().0 {
        Event::SequenceEnd | Event::MappingEnd => None,
        event => Some(value(event, parser, anchors)),
    };
    let (value, anchor) = match event {
        Event::Scalar(text, style, anchor, _) => (scalar(&text, style), anchor),
        Event::Alias(anchor) => (anchors[&anchor].clone(), 0),
        Event::SequenceStart(anchor, _) => (Value::Array(std::iter::from_fn(|| next(anchors)).collect()), anchor),
        Event::MappingStart(anchor, _) => {
            let mut map = Map::new();
            while let Some(key) = next(anchors) {
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                map.insert(key, next(anchors).unwrap());
            }
            (Value::Object(map), anchor)
        }
        other => panic!("{other:?}"),
    };
    anchors.insert(anchor, value.clone());
    value
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    match text {
        _ if style != ScalarStyle::Plain => json!(text),
        "" | "~" | "null" => Value::Null,
        "true" => json!(true),
        "false" => json!(false),
        _ => text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number)),
    }
}

fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&json_schema()).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|error| panic!("invalid schema: {error}"));
    jsonschema::draft202012::new(&schema).unwrap()
}

#[test]
fn published_schema_is_current() {
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(PUBLISHED, json_schema()).unwrap();
    }
    let published = fs::read_to_string(PUBLISHED).unwrap_or_default();
    assert!(published == json_schema(), "docs/policy.schema.json is stale; regenerate it with: {COMMAND}");
}

#[test]
fn schema_accepts_good_files() {
    let validator = validator();
    for kind in ["good", "warnings"] {
        for entry in fs::read_dir(Path::new("tests/fixtures").join(kind)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let json = as_json(&fs::read_to_string(&path).unwrap());
                let errors: Vec<String> =
                    validator.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
                assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
            }
        }
    }
}

#[test]
fn schema_rejects_files_of_the_wrong_form() {
    let validator = validator();
    for code in [
        "unknown-member",
        "missing-member",
        "choose-one",
        "wrong-type",
        "unknown-word",
        "unsupported-version",
        "out-of-range",
        "empty-list",
        "bad-rate",
        "bad-duration",
        "bad-network",
        "bad-share",
        "bad-step",
        "secret-in-file",
        "bad-name",
        "bad-header-name",
        "bad-method",
        "bad-path",
    ] {
        let text = fs::read_to_string(format!("tests/fixtures/errors/{code}.yaml")).unwrap();
        assert!(!validator.is_valid(&as_json(&text)), "{code}");
    }
}
