use std::net::IpAddr;

use serde_json::{Map, Value};

use super::problem::Problem;
use crate::request::Request;

/// The members of a check. Those that no rule looks at yet are checked for
/// their type all the same, so that a caller's mistake shows at once.
const MEMBERS: [&str; 7] = ["ip", "method", "path", "headers", "identities", "cost", "receipt"];

/// Reads the body of a check. A member that is null is absent.
pub(super) fn parse(body: &[u8]) -> Result<Request, Problem> {
    if body.is_empty() {
        return Err(Problem::bad_body("it is empty; a check that says nothing is {}"));
    }
    let value = serde_json::from_slice(body).map_err(|error| Problem::bad_body(&error.to_string()))?;
    let Value::Object(members) = value else {
        return Err(Problem::bad_body("it must be a JSON object such as {\"ip\":\"203.0.113.9\"}"));
    };
    let mut request = Request { ip: None, cost: 1 };
    for (name, value) in &members {
        match name.as_str() {
            _ if value.is_null() && MEMBERS.contains(&name.as_str()) => {}
            "ip" => request.ip = Some(ip(value)?),
            "cost" => request.cost = cost(value)?,
            "method" | "path" => must(value.is_string(), name, "a string")?,
            "headers" | "identities" => must(value.as_object().is_some_and(all_strings), name, "an object of strings")?,
            "receipt" => must(value.is_boolean(), name, "true or false")?,
            _ => return Err(Problem::unknown_member(name, &MEMBERS)),
        }
    }
    Ok(request)
}

fn ip(value: &Value) -> Result<IpAddr, Problem> {
    let parsed = value.as_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        Problem::bad_member("ip", "an IPv4 or IPv6 address without port or brackets, such as \"203.0.113.9\"")
    })
}

fn cost(value: &Value) -> Result<u64, Problem> {
    value.as_u64().ok_or_else(|| Problem::bad_member("cost", "a whole number from 0 to 18446744073709551615"))
}

fn all_strings(members: &Map<String, Value>) -> bool {
    members.values().all(Value::is_string)
}

fn must(holds: bool, member: &str, expected: &str) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(Problem::bad_member(member, expected)) }
}
