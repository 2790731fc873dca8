//! JSON as a tree of so many values and no more, in which no object has two
//! members of the same name.
//!
//! Bytes are read quickly, but each value of a tree takes memory of its own. A body
//! that is nothing but small values would hold up everybody else on the thread for
//! a hundred times as long as an ordinary one, so it is not read to its end. And of
//! two members that contradict each other nobody can say which was meant: one who
//! looks at a request before us may have taken the other.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::problem::Problem;

/// Far more values than any such body has.
const MAX_VALUES: usize = 64;

/// Reads a body, unless it has more than `most` values, of which a list or an object is one itself.
pub(super) fn read(body: &[u8], most: usize) -> Result<Value, Problem> {
    let tree = Tree { most, left: Cell::new(most), twice: RefCell::default() };
    tree.read(body).map_err(|error| match tree.twice.into_inner() {
        Some(member) => Problem::member_twice(&member),
        None => Problem::bad_body(&error.to_string()),
    })
}

/// What is known of a tree while it is read.
struct Tree {
    most: usize,
    /// How many more values there may be.
    left: Cell<usize>,
    /// The name of a member that was there twice.
    twice: RefCell<Option<String>>,
}

impl Tree {
    fn read(&self, body: &[u8]) -> serde_json::Result<Value> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let value = Branch(self).deserialize(&mut json)?;
        json.end()?;
        Ok(value)
    }
}

/// A value that is about to be read.
#[derive(Clone, Copy)]
struct Branch<'a>(&'a Tree);

impl<'de> DeserializeSeed<'de> for Branch<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        let Tree { most, left, .. } = self.0;
        let fewer = left.get().checked_sub(1);
        left.set(fewer.ok_or_else(|| D::Error::custom(format_args!("it has more than {most} values")))?);
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
            if members.contains_key(&name) {
                let told = A::Error::custom("a member is there twice");
                self.0.twice.replace(Some(name));
                return Err(told);
            }
            members.insert(name, object.next_value_seed(self)?);
        }
        Ok(Value::Object(members))
    }
}

/// The members of a small body of which all are known by name.
#[derive(Debug)]
pub(super) struct Members(Map<String, Value>);

impl Members {
    pub(super) fn parse(body: &[u8], known: &[&str]) -> Result<Members, Problem> {
        let expected = || format!("it must be a JSON object with {}", known.join(" and "));
        if serde_json::from_slice::<IgnoredAny>(body).is_err() {
            return Err(Problem::bad_body(&expected()));
        }
        let Value::Object(members) = read(body, MAX_VALUES)? else {
            return Err(Problem::bad_body(&expected()));
        };
        match members.keys().find(|name| !known.contains(&name.as_str())) {
            Some(unknown) => Err(Problem::unknown_member(unknown, known)),
            None => Ok(Members(members)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(body: &str, most: usize) -> String {
        read(body.as_bytes(), most).map_or_else(|problem| problem.detail().to_owned(), |value| value.to_string())
    }

    #[test]
    fn whatever_is_there_once_is_read_as_it_is() {
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
            assert!(told(body, 100).contains(&error), "{}", told(body, 100));
        }
    }

    #[test]
    fn whatever_is_there_twice_is_refused_wherever_it_is() {
        for body in [r#"{"a":1,"a":1}"#, r#"{"b":0,"a":{},"\u0061":null}"#, r#"[[{"b":{"a":1,"c":2,"a":3}}]]"#] {
            assert!(told(body, 100).contains("`a`"), "{}", told(body, 100));
        }
    }

    #[test]
    fn every_value_counts_and_no_name_does() {
        for (body, values) in [("[]", 1), ("[0,0]", 3), (r#"{"a":0,"b":[0]}"#, 4)] {
            assert!(read(body.as_bytes(), values).is_ok(), "{body}");
            let told = told(body, values - 1);
            assert!(told.contains(&format!("it has more than {} values", values - 1)), "{told}");
        }
    }

    #[test]
    fn it_is_not_read_to_its_end() {
        // What comes behind is no JSON, and nobody finds out.
        assert!(told("[0,0,0,0,}", 3).contains("it has more than 3 values"));
    }
}
