use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::strict_json;
use crate::http::problem::Problem;

/// Far more values than any such body has.
const MAX_VALUES: usize = 64;

/// The members of a small body of which all are known by name.
#[derive(Debug)]
pub(in crate::http) struct Members(Map<String, Value>);

impl Members {
    pub(in crate::http) fn parse(body: &[u8], known: &[&str]) -> Result<Members, Problem> {
        let expected = || format!("it must be a JSON object with {}", known.join(" and "));
        if serde_json::from_slice::<IgnoredAny>(body).is_err() {
            return Err(Problem::bad_body(&expected()));
        }
        let Value::Object(members) = strict_json::read(body, MAX_VALUES)? else {
            return Err(Problem::bad_body(&expected()));
        };
        match members.keys().find(|name| !known.contains(&name.as_str())) {
            Some(unknown) => Err(Problem::unknown_member(unknown, known)),
            None => Ok(Members(members)),
        }
    }

    pub(in crate::http) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}
