//! JSON in which no object has two members of the same name. Of two that
//! contradict each other nobody can say which was meant, and one who looks at a
//! request before us may have taken the other.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::problem::Problem;

/// Reads a body.
pub(super) fn read(body: &[u8]) -> Result<Value, Problem> {
    let tree: Tree = serde_json::from_slice(body).map_err(|error| Problem::bad_body(&error.to_string()))?;
    tree.into_value().map_err(|member| Problem::member_twice(&member))
}

/// A value with all members of its objects, also those of the same name.
enum Tree {
    Leaf(Value),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// The name of a member that is there twice, if there is one.
    fn into_value(self) -> Result<Value, String> {
        match self {
            Tree::Leaf(value) => Ok(value),
            Tree::List(values) => values.into_iter().map(Tree::into_value).collect::<Result<_, _>>().map(Value::Array),
            Tree::Object(members) => {
                let mut object = Map::new();
                for (name, value) in members {
                    if object.contains_key(&name) {
                        return Err(name);
                    }
                    object.insert(name, value.into_value()?);
                }
                Ok(Value::Object(object))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            list.push(value);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Tree::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_there_once_is_read_as_it_is() {
        for body in [
            "null",
            "[true,false,0,-1,18446744073709551615,1.5,1e300,\"\\u00e9\\n\",[],{}]",
            r#"{"a":{"a":[{"a":1},{"a":2}]},"A":null,"":""}"#,
        ] {
            let expected: Value = serde_json::from_str(body).unwrap();
            assert_eq!(read(body.as_bytes()).unwrap(), expected);
        }
    }

    #[test]
    fn whatever_is_there_twice_is_refused_wherever_it_is() {
        for body in [r#"{"a":1,"a":1}"#, r#"{"b":0,"a":{},"\u0061":null}"#, r#"[[{"b":{"a":1,"c":2,"a":3}}]]"#] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
