use std::net::IpAddr;

use serde_json::{Map, Value};
use tollgate::Request;
use tollgate::policy::parse_address;

use super::fast_body::{FastBody, has_header};
use crate::http::json::strict_json;
use crate::http::json::text::Text;
use crate::http::problem::Problem;

/// What a check may say.
pub(in crate::http) const MEMBERS: [&str; 8] =
    ["ip", "method", "host", "path", "headers", "identities", "cost", "receipt"];

/// The body of a check: what is known of somebody else's request.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http) struct CheckBody<'a> {
    ip: Option<IpAddr>,
    method: Option<Text<'a>>,
    host: Option<Text<'a>>,
    path: Option<Text<'a>>,
    headers: Vec<(Text<'a>, Text<'a>)>,
    /// Also such as the policy does not know: a gateway may tell more than a policy uses.
    identities: Vec<(Text<'a>, Text<'a>)>,
    cost: u64,
    receipt: bool,
}

impl<'a> CheckBody<'a> {
    /// The most checks in a batch. Each is a decision that others on the same thread wait for.
    pub(in crate::http) const MAX_BATCH: usize = 1_000;

    /// The most values in a check, objects and lists among them: more headers than any server takes.
    const MAX_VALUES: usize = 256;

    /// The most in a batch. Its checks have a kilobyte each, which has no room for more that mean anything.
    const MAX_BATCH_VALUES: usize = CheckBody::MAX_BATCH * 32;

    /// Reads it. A member that is null is absent.
    pub(in crate::http) fn parse(body: &'a [u8]) -> Result<CheckBody<'a>, Problem> {
        match FastBody::parse(body) {
            Some(fast) => Ok(CheckBody::of(fast)),
            None => CheckBody::parse_strictly(body),
        }
    }

    /// Reads one that may be wrong, and says what is.
    pub(in crate::http) fn parse_strictly(body: &[u8]) -> Result<CheckBody<'a>, Problem> {
        if body.is_empty() {
            return Err(Problem::bad_body("it is empty; a check that says nothing is {}"));
        }
        CheckBody::read(strict_json::read(body, CheckBody::MAX_VALUES)?)
    }

    fn of(fast: FastBody<'a>) -> CheckBody<'a> {
        let FastBody { ip, method, host, path, headers, identities, cost, receipt } = fast;
        CheckBody {
            ip,
            method: method.map(Text::from),
            host: host.map(Text::from),
            path: path.map(Text::from),
            headers: headers.unwrap_or_default(),
            identities: identities.unwrap_or_default(),
            cost: cost.unwrap_or(1),
            receipt: receipt.unwrap_or(false),
        }
    }

    /// Reads a list of them.
    pub(in crate::http) fn parse_batch(body: &[u8]) -> Result<Vec<CheckBody<'a>>, Problem> {
        let Value::Array(checks) = strict_json::read(body, CheckBody::MAX_BATCH_VALUES)? else {
            return Err(Problem::bad_body("it must be a JSON array of checks"));
        };
        if checks.len() > CheckBody::MAX_BATCH {
            return Err(Problem::bad_body(&format!("a batch has at most {} checks", CheckBody::MAX_BATCH)));
        }
        let read = |(at, check)| CheckBody::read(check).map_err(|problem| problem.of_check_at(at));
        checks.into_iter().enumerate().map(read).collect()
    }

    fn read(value: Value) -> Result<CheckBody<'a>, Problem> {
        let Value::Object(members) = value else {
            return Err(Problem::bad_body("it must be a JSON object such as {\"ip\":\"203.0.113.9\"}"));
        };
        let mut check = CheckBody::saying_nothing();
        for (name, value) in members {
            match name.as_str() {
                known if value.is_null() && MEMBERS.contains(&known) => {}
                "ip" => check.ip = Some(ip(&value)?),
                "method" => check.method = Some(text("method", value)?),
                "host" => check.host = Some(text("host", value)?),
                "path" => check.path = Some(text("path", value)?),
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
    pub(in crate::http) fn wants_receipt(&self) -> bool {
        self.receipt
    }

    pub(in crate::http) fn identities(&self) -> Vec<(&str, &str)> {
        self.identities.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The request it tells of. Its address is taken for that of whoever sent
    /// it, so that trusted proxies are believed as if they had connected here.
    pub(in crate::http) fn request<'b>(&'b self, identities: &'b [(&'b str, &'b str)]) -> Request<'b> {
        Request {
            method: self.method.as_ref().map_or("", Text::as_str),
            host: self.host.as_ref().map(Text::as_str),
            target: self.path.as_ref().map_or("", Text::as_str),
            headers: &self.headers,
            identities,
            cost: self.cost,
            ..Request::from_peer(self.ip)
        }
    }

    fn saying_nothing() -> CheckBody<'a> {
        CheckBody {
            ip: None,
            method: None,
            host: None,
            path: None,
            headers: Vec::new(),
            identities: Vec::new(),
            cost: 1,
            receipt: false,
        }
    }
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

fn text(member: &str, value: Value) -> Result<Text<'static>, Problem> {
    string(value).ok_or_else(|| Problem::bad_member(member, "a string"))
}

fn identities(value: Value) -> Result<Vec<(Text<'static>, Text<'static>)>, Problem> {
    let wrong = || Problem::bad_member("identities", "an object of strings");
    let mut identities = Vec::new();
    for (name, value) in members(value).ok_or_else(wrong)? {
        let value = string(value).ok_or_else(wrong)?;
        if !can_be(&name, value.as_str()) {
            return Err(Problem::bad_member(
                "identities.client_ip",
                "an IPv4 or IPv6 address, such as \"203.0.113.9\"",
            ));
        }
        identities.push((name.into(), value));
    }
    Ok(identities)
}

/// Whether an identity can have this value. A client whose address is none would meet no rule by address, and so no limit.
pub(in crate::http) fn can_be(identity: &str, value: &str) -> bool {
    identity != "client_ip" || parse_address(value).is_some()
}

/// A header may occur several times: then its values are a list.
fn headers(value: Value) -> Result<Vec<(Text<'static>, Text<'static>)>, Problem> {
    let wrong = || Problem::bad_member("headers", "an object of strings, or of lists of strings");
    let mut headers = Vec::new();
    for (name, value) in members(value).ok_or_else(wrong)? {
        // Members have no order, so that nobody could say which of the lines is the first.
        if has_header(&headers, &name) {
            return Err(Problem::member_twice(&name));
        }
        let lines = match value {
            Value::Array(lines) => lines,
            line => vec![line],
        };
        for line in lines {
            headers.push((name.clone().into(), string(line).ok_or_else(wrong)?));
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

fn string(value: Value) -> Option<Text<'static>> {
    match value {
        Value::String(text) => Some(text.into()),
        _ => None,
    }
}

/// The fast path must read a body as the strict parser does.
#[cfg(any(fuzzing, test))]
pub(crate) fn assert_both_parsers_agree(body: &[u8]) {
    if let Some(fast) = FastBody::parse(body) {
        let strict = CheckBody::parse_strictly(body);
        assert_eq!(Some(CheckBody::of(fast)), strict.ok(), "{}", String::from_utf8_lossy(body));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::check::fast_body::{MAX_LINES, MAX_PAIRS};

    #[test]
    fn both_parsers_read_a_body_alike() {
        for body in [
            "{}",
            r#"{"ip":"2001:db8::1","method":"POST","host":"h","path":"/a\u0020b","cost":0,"receipt":true}"#,
            r#"{"ip":null,"headers":null,"identities":null,"cost":null,"receipt":null}"#,
            r#"{"headers":{"b":["1","2"],"a":"3","c":[]},"identities":{"user":"4\n2","org":"é"}}"#,
            r#"{"headers":{"a":"1","a":"2"},"cost":1,"cost":2}"#,
            r#"{"headers":{"x-a":"1","X-A":"2"}}"#,
            r#"{"cost":1.0}"#,
            r#"{"identities":{"user":["42"]}}"#,
            r#"{"identities":{"client_ip":"203.0.113.9:80","user":"42"}}"#,
            r#"{"identities":{"client_ip":"nobody"}}"#,
            r#"[null,null,null,null,null,null,null,null]"#,
        ] {
            assert_both_parsers_agree(body.as_bytes());
        }
        let lines = |count| format!(r#"{{"headers":{{"a":[{}]}}}}"#, vec!["\"\""; count].join(","));
        for count in [100, 150, 253, 254, 1_000] {
            assert_both_parsers_agree(lines(count).as_bytes());
        }
        let well_formed = r#"{"ip":"203.0.113.9","headers":{"x":["1","2"]},"identities":{"user":"42"}}"#;
        assert!(FastBody::parse(well_formed.as_bytes()).is_some(), "a well-formed body takes the fast path");
    }

    proptest! {
        /// Pieces of bodies in any order: most of it is no JSON, and some of it is.
        #[test]
        fn the_fast_path_agrees_on_any_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
            assert_both_parsers_agree(format!("{{{}}}", pieces.concat()).as_bytes());
            assert_both_parsers_agree(pieces.concat().as_bytes());
        }

        /// Well-formed members with any of these values.
        #[test]
        fn the_fast_path_agrees_on_any_members(
            members in prop::collection::vec((prop::sample::select(NAMES), prop::sample::select(VALUES)), 0..5),
            comma in prop::sample::select(&[",", " ,\n", ",,"][..]),
        ) {
            let members: Vec<String> = members.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            assert_both_parsers_agree(format!("{{{}}}", members.join(comma)).as_bytes());
        }
    }

    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        " ",
        "\"ip\"",
        "\"203.0.113.9\"",
        "\"cost\"",
        "0",
        "17",
        "01",
        "-1",
        "\"headers\"",
        "\"a\"",
        "\"é\"",
        "\"\\n\"",
        "true",
        "null",
        "\"receipt\"",
        "\"identities\"",
        "\u{1}",
        "\"",
    ];

    const NAMES: &[&str] = &[
        "\"ip\"",
        "\"method\"",
        "\"host\"",
        "\"path\"",
        "\"headers\"",
        "\"identities\"",
        "\"cost\"",
        "\"receipt\"",
        "\"c\\u006fst\"",
    ];

    const VALUES: &[&str] = &[
        "\"203.0.113.9\"",
        "\"::1\"",
        "\"GET\"",
        "\"\\u0047ET\"",
        "\"\"",
        "{}",
        "{\"b\":\"1\",\"a\":\"2\"}",
        "{\"a\":[\"1\",\"0\"],\"b\":[]}",
        "{\"a\":[],\"a\":\"1\"}",
        "{\"a\":[[\"1\"]]}",
        "{\"a\":1}",
        "{\"client_ip\":\"::1\"}",
        "{\"client_ip\":\"::g\"}",
        "0",
        "00",
        "1e3",
        "18446744073709551615",
        "18446744073709551616",
        "true",
        "false",
        "truefalse",
        "null",
        " \t1 ",
        "\"\t\"",
    ];

    #[test]
    fn a_header_in_two_cases_is_there_twice() {
        let body = r#"{"headers":{"x-api-key":"k1","X-API-Key":["r7"]}}"#;
        let problem = CheckBody::parse(body.as_bytes()).unwrap_err();
        assert!(format!("{problem:?}").contains("`x-api-key` is there twice"), "{problem:?}");
    }

    #[test]
    fn an_object_with_many_members_is_read_too() {
        let members: Vec<String> = (0..100).map(|at| format!("\"x-{at}\":\"{at}\"")).collect();
        let body = format!("{{\"headers\":{{{}}}}}", members.join(","));
        assert_eq!(CheckBody::parse(body.as_bytes()).map(|check| check.headers.len()).ok(), Some(100));
    }

    #[test]
    fn the_strict_parser_takes_the_most_that_the_fast_path_takes() {
        // Every member there is, as many names as may be, and as many lines.
        let names = |count: usize| (0..count).map(|at| format!("\"x-{at}\""));
        let lists = names(MAX_PAIRS).map(|name| format!("{name}:[{}]", ["\"\""; MAX_LINES / MAX_PAIRS].join(",")));
        let identities = names(MAX_PAIRS).map(|name| format!("{name}:\"\""));
        let body = format!(
            r#"{{"ip":"::1","method":"","host":"","path":"","headers":{{{}}},"identities":{{{}}},"cost":1,"receipt":true}}"#,
            lists.collect::<Vec<_>>().join(","),
            identities.collect::<Vec<_>>().join(",")
        );
        assert!(FastBody::parse(body.as_bytes()).is_some());
        assert_both_parsers_agree(body.as_bytes());
    }
}
