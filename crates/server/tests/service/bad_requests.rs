use crate::client::{Connection, Response, request};
use crate::test_service::TestService;

/// Asserts that a response is a problem with this status, and returns its detail.
fn detail(response: &Response, status: u16) -> String {
    assert_eq!((response.status, response.field("content-type")), (status, Some("application/problem+json")));
    let problem = response.json();
    assert_eq!(problem["status"], status);
    assert_eq!(problem["type"], "about:blank");
    problem["detail"].as_str().unwrap().to_owned()
}

#[test]
fn invalid_members_get_400_with_the_expected_value() {
    const IP: &str = "an IPv4 or IPv6 address without port or brackets, such as \"203.0.113.9\"";
    const COST: &str = "a whole number from 0 to 18446744073709551615";
    const HEADERS: &str = "an object of strings, or of lists of strings";
    let service = TestService::start();
    for (member, value, expected) in [
        ("ip", "\"\"", IP),
        ("ip", "\"localhost\"", IP),
        ("ip", "\"203.0.113.9:80\"", IP),
        ("ip", "\"203.0.113.256\"", IP),
        ("ip", "\"[::1]\"", IP),
        ("ip", "9", IP),
        ("cost", "-1", COST),
        ("cost", "1.5", COST),
        ("cost", "1e300", COST),
        ("cost", "18446744073709551616", COST),
        ("cost", "\"1\"", COST),
        ("method", "1", "a string"),
        ("path", "[]", "a string"),
        ("host", "true", "a string"),
        ("headers", "[]", HEADERS),
        ("headers", "{\"x-tier\":1}", HEADERS),
        ("headers", "{\"x-tier\":[\"pro\",1]}", HEADERS),
        ("headers", "{\"x-tier\":[[\"pro\"]]}", HEADERS),
        ("identities", "{\"user\":[\"42\"]}", "an object of strings"),
        ("identities", "{\"user\":null}", "an object of strings"),
        ("receipt", "\"yes\"", "true or false"),
    ] {
        let response = request(service.http, "POST", "/v1/check", &format!("{{\"{member}\":{value}}}"));
        assert_eq!(detail(&response, 400), format!("`{member}` must be {expected}"));
        assert_eq!(response.json()["member"], member);
    }
}

/// An invalid address would match no rule, and so have no limit.
#[test]
fn client_ip_identity_must_be_an_address() {
    let service = TestService::start();
    let check = |address: &str| {
        let body = serde_json::json!({ "identities": { "client_ip": address } });
        request(service.http, "POST", "/v1/check", &body.to_string())
    };
    for address in ["", "zzz", "203.0.113.256", "203.0.113.9, 203.0.113.10", "::g"] {
        let response = check(address);
        let expected = "`identities.client_ip` must be an IPv4 or IPv6 address, such as \"203.0.113.9\"";
        assert_eq!(detail(&response, 400), expected, "{address}");
        assert_eq!(response.json()["member"], "identities.client_ip");
    }
    for (address, remaining) in [("203.0.113.9", 59), ("203.0.113.9:80", 58), ("[2001:db8::1]", 59)] {
        assert_eq!(check(address).json()["remaining"], remaining, "{address}");
    }
}

#[test]
fn duplicate_members_get_400_and_charge_nothing() {
    let service = TestService::with_policy("version: 1\nrules: [ { name: per-ip, key: client_ip, limit: 9/h } ]\n");
    for (path, body, member) in [
        ("/v1/check", r#"{"ip":"203.0.113.9","ip":"203.0.113.10"}"#, "ip"),
        ("/v1/check", r#"{"ip":"203.0.113.9","i\u0070":null}"#, "ip"),
        ("/v1/check", r#"{"identities":{"user":"1","user":"1"}}"#, "user"),
        ("/v1/check", r#"{"headers":{"x-cost":"1","x-cost":"2"}}"#, "x-cost"),
        ("/v1/check/batch", r#"[{},{"cost":1,"cost":1}]"#, "cost"),
        ("/v1/settle", r#"{"receipt":"x","cost":1,"cost":2}"#, "cost"),
    ] {
        let response = request(service.http, "POST", path, body);
        assert_eq!(detail(&response, 400), format!("`{member}` occurs twice; send it once"));
        assert_eq!(response.json()["member"], member);
    }
    assert_eq!(service.check(r#"{"ip":"203.0.113.9"}"#)["remaining"], 8, "none of them was charged");
}

#[test]
fn unknown_members_get_400_with_their_name() {
    let service = TestService::start();
    for (body, member) in [(r#"{"ip":"203.0.113.9","kost":2}"#, "kost"), (r#"{"Ip":null}"#, "Ip"), (r#"{"":1}"#, "")] {
        let response = request(service.http, "POST", "/v1/check", body);
        assert!(detail(&response, 400).starts_with(&format!("unknown member `{member}`; the members are ip,")));
        assert_eq!(response.json()["member"], member);
    }
}

#[test]
fn bodies_with_too_many_values_are_refused_before_their_end() {
    let service = TestService::start();
    let members = |count| (0..count).map(|at| format!("\"x-{at}\":\"\"")).collect::<Vec<_>>().join(",");
    // The text after the value that is too many is not JSON.
    for body in [
        format!("{{{},}}", members(300)),
        format!("{{\"headers\":{{{},}}}}", members(300)),
        format!("{{\"headers\":{{\"x\":[{}]}}}}", "\"\",".repeat(5_000)),
        format!("[{}", "[],".repeat(20_000)),
    ] {
        let detail_text = detail(&request(service.http, "POST", "/v1/check", &body), 400);
        assert!(detail_text.starts_with("invalid body: it has more than 256 values at line 1"), "{detail_text}");
    }
    let batch = format!("[{}", "{\"a\":0},".repeat(20_000));
    let detail_text = detail(&request(service.http, "POST", "/v1/check/batch", &batch), 400);
    assert!(detail_text.starts_with("invalid body: it has more than 32000 values at line 1"), "{detail_text}");
    // As many headers as any server accepts are not too many.
    let many = format!("{{\"headers\":{{{}}}}}", members(200));
    assert_eq!(service.check(&many)["allowed"], true);
}

#[test]
fn batch_of_1000_full_checks_is_accepted() {
    let service = TestService::start();
    let headers: Vec<String> = (0..20).map(|at| format!("\"accept-something-{at}\":\"gzip, br\"")).collect();
    let check =
        format!(r#"{{"ip":"203.0.113.9","method":"GET","path":"/","headers":{{{}}},"cost":0}}"#, headers.join(","));
    let batch = format!("[{}]", vec![check; 1_000].join(","));
    let response = request(service.http, "POST", "/v1/check/batch", &batch);
    assert_eq!((response.status, response.json().as_array().map(Vec::len)), (200, Some(1_000)));
}

#[test]
fn bodies_that_are_not_an_object_get_400() {
    let service = TestService::start();
    let nested = "[".repeat(60_000);
    for body in ["", " ", "{", "not json", "[]", "\"203.0.113.9\"", "{\"ip\":\"\u{0}\"}", "{} {}", &nested] {
        let response = request(service.http, "POST", "/v1/check", body);
        let detail = detail(&response, 400);
        assert!(detail.starts_with("invalid body: "), "{detail}");
        assert!(response.json().get("member").is_none());
    }
}

#[test]
fn refused_bodies_charge_nothing_and_keep_the_connection_open() {
    let service = TestService::start();
    let mut connection = Connection::open(service.http);
    assert_eq!(connection.request("POST", "/v1/check", r#"{"ip":"203.0.113.9","cost":1,"kost":1}"#).status, 400);
    let next = connection.request("POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#);
    assert_eq!(next.json()["remaining"], 59);
}

#[test]
fn bodies_over_64_kib_get_413() {
    const MAX_BYTES: usize = 65_536;
    let service = TestService::start();
    let padded = |length: usize| {
        let body = r#"{"ip":"203.0.113.9"}"#;
        body.to_owned() + &" ".repeat(length - body.len())
    };
    assert_eq!(request(service.http, "POST", "/v1/check", &padded(MAX_BYTES)).status, 200);
    let response = request(service.http, "POST", "/v1/check", &padded(MAX_BYTES + 1));
    assert_eq!(detail(&response, 413), "the body must be at most 65536 bytes");
}

#[test]
fn unknown_paths_get_404() {
    let service = TestService::start();
    for path in ["/", "/v1", "/v1/check/", "/V1/check", "/healthz/x"] {
        assert_eq!(detail(&request(service.http, "GET", path, ""), 404), format!("no resource at {path}"));
    }
    assert_eq!(request(service.admin, "POST", "/v1/check", "{}").status, 404);
}

#[test]
fn wrong_methods_get_405_with_allow() {
    let service = TestService::start();
    for (method, path, allowed) in
        [("GET", "/v1/check", "POST"), ("DELETE", "/v1/check", "POST"), ("POST", "/healthz", "GET,HEAD")]
    {
        let response = request(service.http, method, path, "");
        assert!(detail(&response, 405).starts_with(&format!("{path} does not support {method};")));
        assert_eq!(response.field("allow"), Some(allowed));
    }
}
