//! The strict parser of checks: accepts every valid body, and describes the error of any other.

use std::net::IpAddr;

use serde_json::Value;

use super::check_body::{CheckBody, Pairs, has_header, is_valid_identity};
use crate::http::problem::ProblemDetails;
use crate::http::strict_json;

/// The members of a check.
pub(in crate::http) const MEMBERS: [&str; 8] =
    ["ip", "method", "host", "path", "headers", "identities", "cost", "receipt"];

/// The maximum number of checks in a batch. Other work on the thread waits for each.
pub(super) const MAX_BATCH: usize = 1_000;

/// The maximum number of values in a check, objects and lists included: more headers than any server accepts.
const MAX_VALUES: usize = 256;

/// The maximum number of values in a batch. A check has a kilobyte, which is too small for more.
const MAX_BATCH_VALUES: usize = MAX_BATCH * 32;

/// Parses a check, which borrows from `tree`.
pub(super) fn parse<'a>(body: &[u8], tree: &'a mut Value) -> Result<CheckBody<'a>, ProblemDetails> {
    if body.is_empty() {
        return Err(ProblemDetails::bad_body("it is empty; the smallest check is {}"));
    }
    *tree = strict_json::read(body, MAX_VALUES)?;
    read(tree)
}

/// Parses a list of checks.
pub(super) fn parse_batch<'a>(body: &[u8], tree: &'a mut Value) -> Result<Vec<CheckBody<'a>>, ProblemDetails> {
    *tree = strict_json::read(body, MAX_BATCH_VALUES)?;
    let Value::Array(checks) = tree else {
        return Err(ProblemDetails::bad_body("it must be a JSON array of checks"));
    };
    if checks.len() > MAX_BATCH {
        return Err(ProblemDetails::bad_body(&format!("a batch has at most {MAX_BATCH} checks")));
    }
    let read = |(at, check)| read(check).map_err(|problem| problem.of_check_at(at));
    checks.iter().enumerate().map(read).collect()
}

fn read(value: &Value) -> Result<CheckBody<'_>, ProblemDetails> {
    let Value::Object(members) = value else {
        return Err(ProblemDetails::bad_body("it must be a JSON object such as {\"ip\":\"203.0.113.9\"}"));
    };
    let mut check = CheckBody::default();
    for (name, value) in members {
        match name.as_str() {
            known if value.is_null() && MEMBERS.contains(&known) => {}
            "ip" => check.ip = Some(ip(value)?),
            "method" => check.method = Some(text("method", value)?),
            "host" => check.host = Some(text("host", value)?),
            "path" => check.path = Some(text("path", value)?),
            "headers" => check.headers = Some(headers(value)?),
            "identities" => check.identities = Some(identities(value)?),
            "cost" => check.cost = Some(cost(value)?),
            "receipt" => check.receipt = Some(boolean("receipt", value)?),
            _ => return Err(ProblemDetails::unknown_member(name, &MEMBERS)),
        }
    }
    Ok(check)
}

fn boolean(member: &str, value: &Value) -> Result<bool, ProblemDetails> {
    value.as_bool().ok_or_else(|| ProblemDetails::bad_member(member, "true or false"))
}

fn ip(value: &Value) -> Result<IpAddr, ProblemDetails> {
    let parsed = value.as_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| {
        ProblemDetails::bad_member("ip", "an IPv4 or IPv6 address without port or brackets, such as \"203.0.113.9\"")
    })
}

fn cost(value: &Value) -> Result<u64, ProblemDetails> {
    value.as_u64().ok_or_else(|| ProblemDetails::bad_member("cost", "a whole number from 0 to 18446744073709551615"))
}

fn text<'a>(member: &str, value: &'a Value) -> Result<&'a str, ProblemDetails> {
    value.as_str().ok_or_else(|| ProblemDetails::bad_member(member, "a string"))
}

fn identities(value: &Value) -> Result<Pairs<'_>, ProblemDetails> {
    let wrong = || ProblemDetails::bad_member("identities", "an object of strings");
    let mut identities = Vec::new();
    for (name, value) in value.as_object().ok_or_else(wrong)? {
        let value = value.as_str().ok_or_else(wrong)?;
        if !is_valid_identity(name, value) {
            return Err(ProblemDetails::bad_member(
                "identities.client_ip",
                "an IPv4 or IPv6 address, such as \"203.0.113.9\"",
            ));
        }
        identities.push((name.as_str(), value));
    }
    Ok(identities)
}

/// Parses headers. A header with several lines is a list.
fn headers(value: &Value) -> Result<Pairs<'_>, ProblemDetails> {
    let wrong = || ProblemDetails::bad_member("headers", "an object of strings, or of lists of strings");
    let mut headers = Vec::new();
    for (name, value) in value.as_object().ok_or_else(wrong)? {
        // JSON members have no order, so the first of the lines is undefined.
        if has_header(&headers, name) {
            return Err(ProblemDetails::member_twice(name));
        }
        let lines = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for line in lines {
            headers.push((name.as_str(), line.as_str().ok_or_else(wrong)?));
        }
    }
    Ok(headers)
}

/// Asserts that the fast path reads a body as the strict parser does.
#[cfg(any(fuzzing, test))]
pub(crate) fn assert_both_parsers_agree(body: &[u8]) {
    if let Some(mut fast) = CheckBody::parse_fast(body) {
        // A tree sorts its names. The lines of one header keep their order.
        for pairs in [&mut fast.headers, &mut fast.identities].into_iter().flatten() {
            pairs.sort_by_key(|(name, _)| *name);
        }
        let mut tree = Value::Null;
        assert_eq!(Some(fast), parse(body, &mut tree).ok(), "{}", String::from_utf8_lossy(body));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::check::check_body::{MAX_LINES, MAX_PAIRS};

    #[test]
    fn both_parsers_read_bodies_alike() {
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
            r#"{"identities":{"client_ip":"invalid"}}"#,
            r#"[null,null,null,null,null,null,null,null]"#,
        ] {
            assert_both_parsers_agree(body.as_bytes());
        }
        let lines = |count| format!(r#"{{"headers":{{"a":[{}]}}}}"#, vec!["\"\""; count].join(","));
        for count in [100, 150, 253, 254, 1_000] {
            assert_both_parsers_agree(lines(count).as_bytes());
        }
        let well_formed = r#"{"ip":"203.0.113.9","headers":{"x":["1","2"]},"identities":{"user":"42"}}"#;
        assert!(CheckBody::parse_fast(well_formed.as_bytes()).is_some(), "a well-formed body takes the fast path");
    }

    proptest! {
        /// Pieces of bodies in any order: most results are not JSON, and some are.
        #[test]
        fn fast_path_agrees_on_any_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..24)) {
            assert_both_parsers_agree(format!("{{{}}}", pieces.concat()).as_bytes());
            assert_both_parsers_agree(pieces.concat().as_bytes());
        }

        /// Well-formed members with any of these values.
        #[test]
        fn fast_path_agrees_on_any_members(
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
    fn header_names_that_differ_in_case_are_duplicates() {
        let body = r#"{"headers":{"x-api-key":"k1","X-API-Key":["r7"]}}"#;
        let mut tree = Value::Null;
        let problem = CheckBody::parse(body.as_bytes(), &mut tree).unwrap_err();
        assert!(format!("{problem:?}").contains("`x-api-key` occurs twice"), "{problem:?}");
    }

    #[test]
    fn objects_with_many_members_are_parsed() {
        let members: Vec<String> = (0..100).map(|at| format!("\"x-{at}\":\"{at}\"")).collect();
        let body = format!("{{\"headers\":{{{}}}}}", members.join(","));
        let mut tree = Value::Null;
        let check = CheckBody::parse(body.as_bytes(), &mut tree).unwrap();
        assert_eq!(check.headers.map(|headers| headers.len()), Some(100));
    }

    #[test]
    fn strict_parser_accepts_the_maximum_of_the_fast_path() {
        // Every member, with the maximum of names and lines.
        let names = |count: usize| (0..count).map(|at| format!("\"x-{at}\""));
        let lists = names(MAX_PAIRS).map(|name| format!("{name}:[{}]", ["\"\""; MAX_LINES / MAX_PAIRS].join(",")));
        let identities = names(MAX_PAIRS).map(|name| format!("{name}:\"\""));
        let body = format!(
            r#"{{"ip":"::1","method":"","host":"","path":"","headers":{{{}}},"identities":{{{}}},"cost":1,"receipt":true}}"#,
            lists.collect::<Vec<_>>().join(","),
            identities.collect::<Vec<_>>().join(",")
        );
        assert!(CheckBody::parse_fast(body.as_bytes()).is_some());
        assert_both_parsers_agree(body.as_bytes());
    }
}
