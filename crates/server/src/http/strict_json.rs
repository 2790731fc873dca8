//! Parses JSON into a tree with a bounded number of values and no duplicate members.
//!
//! Every value of a tree allocates. A body of many small values would block the thread a hundred times as long as an
//! ordinary one, so parsing stops at the limit. Duplicate members are ambiguous: a proxy in front of the service may
//! have read the other one.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::problem::ProblemDetails;

/// The maximum number of values in a small body, far more than such bodies have.
const MAX_VALUES: usize = 64;

/// Parses a body with at most `max` values; a list or an object counts as one itself.
pub(super) fn read(body: &[u8], max: usize) -> Result<Value, ProblemDetails> {
    let tree = StrictTree { max, left: Cell::new(max), duplicate: RefCell::default() };
    tree.read(body).map_err(|error| match tree.duplicate.into_inner() {
        Some(member) => ProblemDetails::member_twice(&member),
        None => ProblemDetails::bad_body(&error.to_string()),
    })
}

/// The state of the parser.
struct StrictTree {
    max: usize,
    /// How many more values there may be.
    left: Cell<usize>,
    /// The name of a duplicate member.
    duplicate: RefCell<Option<String>>,
}

impl StrictTree {
    fn read(&self, body: &[u8]) -> serde_json::Result<Value> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let value = StrictValue(self).deserialize(&mut json)?;
        json.end()?;
        Ok(value)
    }
}

/// The next value to parse.
#[derive(Clone, Copy)]
struct StrictValue<'a>(&'a StrictTree);

impl<'de> DeserializeSeed<'de> for StrictValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        let StrictTree { max, left, .. } = self.0;
        let remaining = left.get().checked_sub(1);
        left.set(remaining.ok_or_else(|| D::Error::custom(format_args!("it has more than {max} values")))?);
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            if members.contains_key(&name) {
                let error = A::Error::custom("a member occurs twice");
                self.0.duplicate.replace(Some(name));
                return Err(error);
            }
            members.insert(name, object.next_value_seed(self)?);
        }
        Ok(Value::Object(members))
    }
}

/// The members of a small body with known names.
#[derive(Debug)]
pub(super) struct BodyMembers(Map<String, Value>);

impl BodyMembers {
    pub(super) fn parse(body: &[u8], known: &[&str]) -> Result<BodyMembers, ProblemDetails> {
        let expected = || format!("it must be a JSON object with {}", known.join(" and "));
        if serde_json::from_slice::<IgnoredAny>(body).is_err() {
            return Err(ProblemDetails::bad_body(&expected()));
        }
        let Value::Object(members) = read(body, MAX_VALUES)? else {
            return Err(ProblemDetails::bad_body(&expected()));
        };
        match members.keys().find(|name| !known.contains(&name.as_str())) {
            Some(unknown) => Err(ProblemDetails::unknown_member(unknown, known)),
            None => Ok(BodyMembers(members)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_text(body: &str, max: usize) -> String {
        read(body.as_bytes(), max).map_or_else(|problem| problem.detail().to_owned(), |value| value.to_string())
    }

    #[test]
    fn valid_json_is_parsed_unchanged() {
        for body in [
            "null",
            "[true,false,0,-1,18446744073709551615,-9223372036854775808,1.5,1e300,1e-400,\"\\u00e9\\n\",[],{}]",
            r#"{"a":{"a":[{"a":1},{"a":2}]},"A":null,"":""}"#,
        ] {
            let expected: Value = serde_json::from_str(body).unwrap();
            assert_eq!(read(body.as_bytes(), 100).unwrap(), expected);
        }
        for body in ["", "{", "[1,]", "[] []", "\"\\ud800\"", "1e400", "{\"a\":1"] {
            let error = serde_json::from_str::<Value>(body).unwrap_err().to_string();
            assert!(result_text(body, 100).contains(&error), "{}", result_text(body, 100));
        }
    }

    #[test]
    fn duplicate_members_are_refused_at_any_depth() {
        for body in [r#"{"a":1,"a":1}"#, r#"{"b":0,"a":{},"\u0061":null}"#, r#"[[{"b":{"a":1,"c":2,"a":3}}]]"#] {
            assert!(result_text(body, 100).contains("`a`"), "{}", result_text(body, 100));
        }
    }

    #[test]
    fn values_count_and_member_names_do_not() {
        for (body, values) in [("[]", 1), ("[0,0]", 3), (r#"{"a":0,"b":[0]}"#, 4)] {
            assert!(read(body.as_bytes(), values).is_ok(), "{body}");
            let error = result_text(body, values - 1);
            assert!(error.contains(&format!("it has more than {} values", values - 1)), "{error}");
        }
    }

    #[test]
    fn parsing_stops_at_the_value_limit() {
        // The rest is not JSON, and is not parsed.
        assert!(result_text("[0,0,0,0,}", 3).contains("it has more than 3 values"));
    }
}
