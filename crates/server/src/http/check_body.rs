use std::net::IpAddr;

use serde_json::{Map, Value};
use tollgate::Request;

use super::problem::Problem;

/// What a check may say.
pub(super) const MEMBERS: [&str; 8] = ["ip", "method", "host", "path", "headers", "identities", "cost", "receipt"];

/// The body of a check: what is known of somebody else's request.
#[derive(Debug)]
pub(super) struct CheckBody {
    ip: Option<IpAddr>,
    method: String,
    host: Option<String>,
    path: String,
    headers: Vec<(String, String)>,
    /// Also such as the policy does not know: a gateway may tell more than a policy uses.
    identities: Vec<(String, String)>,
    cost: u64,
    receipt: bool,
}

impl CheckBody {
    /// The most checks in a batch. Each is a decision that others on the same thread wait for.
    pub(super) const MAX_BATCH: usize = 1_000;

    /// Reads it. A member that is null is absent.
    pub(super) fn parse(body: &[u8]) -> Result<CheckBody, Problem> {
        if body.is_empty() {
            return Err(Problem::bad_body("it is empty; a check that says nothing is {}"));
        }
        CheckBody::read(json(body)?)
    }

    /// Reads a list of them.
    pub(super) fn parse_batch(body: &[u8]) -> Result<Vec<CheckBody>, Problem> {
        let Value::Array(checks) = json(body)? else {
            return Err(Problem::bad_body("it must be a JSON array of checks"));
        };
        if checks.len() > CheckBody::MAX_BATCH {
            return Err(Problem::bad_body(&format!("a batch has at most {} checks", CheckBody::MAX_BATCH)));
        }
        let read = |(at, check)| CheckBody::read(check).map_err(|problem| problem.of_check_at(at));
        checks.into_iter().enumerate().map(read).collect()
    }

    fn read(value: Value) -> Result<CheckBody, Problem> {
        let Value::Object(members) = value else {
            return Err(Problem::bad_body("it must be a JSON object such as {\"ip\":\"203.0.113.9\"}"));
        };
        let mut check = CheckBody::saying_nothing();
        for (name, value) in members {
            match name.as_str() {
                known if value.is_null() && MEMBERS.contains(&known) => {}
                "ip" => check.ip = Some(ip(&value)?),
                "method" => check.method = text("method", value)?,
                "host" => check.host = Some(text("host", value)?),
                "path" => check.path = text("path", value)?,
                "headers" => check.headers = headers(value)?,
                "identities" => check.identities = identities(value)?,
                "cost" => check.cost = cost(&value)?,
                "receipt" => check.receipt = boolean("receipt", &value)?,
                _ => return Err(Problem::unknown_member(&name, &MEMBERS)),
            }
        }
        Ok(check)
    }

    /// Whether the caller may want to give something back.
    pub(super) fn wants_receipt(&self) -> bool {
        self.receipt
    }

    pub(super) fn identities(&self) -> Vec<(&str, &str)> {
        self.identities.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The request it tells of. Its address is taken for that of whoever sent
    /// it, so that trusted proxies are believed as if they had connected here.
    pub(super) fn request<'a>(&'a self, identities: &'a [(&'a str, &'a str)]) -> Request<'a> {
        Request {
            method: &self.method,
            host: self.host.as_deref(),
            target: &self.path,
            headers: &self.headers,
            identities,
            cost: self.cost,
            ..Request::from_peer(self.ip)
        }
    }

    fn saying_nothing() -> CheckBody {
        CheckBody {
            ip: None,
            method: String::new(),
            host: None,
            path: String::new(),
            headers: Vec::new(),
            identities: Vec::new(),
            cost: 1,
            receipt: false,
        }
    }
}

fn json(body: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::bad_body(&error.to_string()))
}

fn boolean(member: &str, value: &Value) -> Result<bool, Problem> {
    value.as_bool().ok_or_else(|| Problem::bad_member(member, "true or false"))
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

fn text(member: &str, value: Value) -> Result<String, Problem> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Problem::bad_member(member, "a string")),
    }
}

fn identities(value: Value) -> Result<Vec<(String, String)>, Problem> {
    let wrong = || Problem::bad_member("identities", "an object of strings");
    members(value)
        .ok_or_else(wrong)?
        .into_iter()
        .map(|(name, value)| Some((name, string(value)?)))
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}

/// A header may occur several times: then its values are a list.
fn headers(value: Value) -> Result<Vec<(String, String)>, Problem> {
    let wrong = || Problem::bad_member("headers", "an object of strings, or of lists of strings");
    let mut headers = Vec::new();
    for (name, value) in members(value).ok_or_else(wrong)? {
        let lines = match value {
            Value::Array(lines) => lines,
            line => vec![line],
        };
        for line in lines {
            headers.push((name.clone(), string(line).ok_or_else(wrong)?));
        }
    }
    Ok(headers)
}

fn members(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

fn string(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}
