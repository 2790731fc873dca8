//! JSON as a tree of so many values and no more.
//!
//! Bytes are read quickly, but each value of a tree takes memory of its own. A body
//! that is nothing but small values would hold up everybody else on the thread for
//! a hundred times as long as an ordinary one, so it is not read to its end.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads it, unless it has more than `most` values, of which a list or an object is one itself.
pub(super) fn parse(json: &[u8], most: usize) -> serde_json::Result<Value> {
    let left = Cell::new(most);
    let mut json = serde_json::Deserializer::from_slice(json);
    let value = Branch { left: &left, most }.deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

/// A value that is about to be read, and how many more there may be.
#[derive(Clone, Copy)]
struct Branch<'a> {
    left: &'a Cell<usize>,
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Branch<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.ok_or_else(|| D::Error::custom(format_args!("it has more than {} values", self.most)))?);
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Branch<'_> {
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
            // Of two with the same name the last counts.
            members.insert(name, object.next_value_seed(self)?);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn what_is_not_too_much_is_read_as_ever() {
        for json in [
            "null",
            "[true,false,0,-1,18446744073709551615,-9223372036854775808,1.5,1e300,1e-400]",
            r#"{"a":{"b":[{}]},"c":"d\u00e9\n","a":2,"":[]}"#,
            "",
            "{",
            "[1,]",
            "[] []",
            "\"\\ud800\"",
            "1e400",
            "{\"a\":1",
        ] {
            let (read, other) = (parse(json.as_bytes(), 100), serde_json::from_str(json));
            assert_eq!(
                read.map_err(|error| error.to_string()),
                other.map_err(|error: serde_json::Error| error.to_string())
            );
        }
    }

    #[test]
    fn every_value_counts_and_no_name_does() {
        for (json, values) in [("[]", 1), ("[0,0]", 3), (r#"{"a":0,"b":[0]}"#, 4), (r#"{"a":0,"a":0}"#, 3)] {
            assert!(parse(json.as_bytes(), values).is_ok(), "{json}");
            let told = parse(json.as_bytes(), values - 1).map_err(|error| error.to_string()).unwrap_err();
            assert!(told.starts_with(&format!("it has more than {} values", values - 1)), "{told}");
        }
    }

    #[test]
    fn it_is_not_read_to_its_end() {
        // What comes behind is no JSON, and nobody finds out.
        let told = parse(b"[0,0,0,0,}", 3).map_err(|error| error.to_string()).unwrap_err();
        assert!(told.starts_with("it has more than 3 values"), "{told}");
    }
}
