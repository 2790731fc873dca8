//! Hostile values in descriptors: clients choose them, and gateways pass them on.

use prost::Message;
use tonic::Code;

use crate::messages::{OK, OVER_LIMIT, RateLimitDescriptor, RateLimitResponse, descriptor, rate_limit_request};
use crate::test_service::TestService;

const POLICY: &str = "version: 1
identity:
  user: { given: true }
deny: { client_ip: 192.0.2.0/24 }
rules:
  - { name: per-ip, key: client_ip, limit: 1/min }
  - { name: per-user, key: user, limit: 1/min }
  - { name: api, when: { path: /api/*, method: GET }, limit: 100/min }
";

/// Text with a special meaning in a header, a log, or a C string.
const HOSTILE: [&str; 6] = [
    "ann\r\nset-cookie: admin=1",
    "ann\r\n\r\nHTTP/1.1 200 OK",
    "ann\0",
    "\0",
    "\u{1b}[2J\u{7f}",
    "\u{2028}\u{feff}\u{202e}",
];

/// A request whose strings may be any bytes.
#[derive(Clone, PartialEq, Message)]
struct RawRateLimitRequest {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<RawDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct RawDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<RawEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct RawEntry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// Calls the service, and asserts that the headers in the response are printable ASCII.
fn rate_limit(service: &TestService, descriptors: &[RateLimitDescriptor]) -> RateLimitResponse {
    let response = service.rate_limit(&rate_limit_request(descriptors));
    for header in &response.response_headers_to_add {
        let is_printable = |text: &str| !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        assert!(is_printable(&header.key) && is_printable(&header.value), "{header:?}");
    }
    response
}

#[test]
fn any_value_is_a_key_of_its_own() {
    let service = TestService::with_policy(POLICY);
    for value in HOSTILE {
        let of_user = [descriptor(&[("user", value)])];
        let first = rate_limit(&service, &of_user);
        assert_eq!(first.overall_code, OK, "{value:?}");
        assert!(first.header("ratelimit").is_some_and(|field| field.starts_with("\"per-user\"")), "{first:?}");
        assert_eq!(rate_limit(&service, &of_user).overall_code, OVER_LIMIT, "{value:?}");
    }
    // A prefix of such a value is another key.
    assert_eq!(rate_limit(&service, &[descriptor(&[("user", "ann")])]).overall_code, OK);
    // Values are not trimmed: white space around a value is part of it, and white space alone is a value.
    for value in ["\r\n", " ", " ann", "ann "] {
        let of_user = [descriptor(&[("user", value)])];
        let codes = [rate_limit(&service, &of_user).overall_code, rate_limit(&service, &of_user).overall_code];
        assert_eq!(codes, [OK, OVER_LIMIT], "{value:?}");
    }
}

#[test]
fn non_ip_identities_are_keyed_as_text_and_invalid_methods_match_no_rule() {
    let service = TestService::with_policy(POLICY);
    for value in HOSTILE {
        let address = format!("203.0.113.9{value}");
        let method = format!("GET{value}");
        let response = rate_limit(
            &service,
            &[
                descriptor(&[("remote_address", &address)]),
                descriptor(&[("path", "/api/a"), ("method", &method)]),
                descriptor(&[("path", value), ("method", "GET")]),
                descriptor(&[(value, "ann")]),
            ],
        );
        assert_eq!(response.codes(), [OK; 4], "{value:?}");
        // Otherwise a gateway with its own notation of addresses would limit no client.
        let matched: Vec<bool> = response.statuses.iter().map(|status| status.current_limit.is_some()).collect();
        assert_eq!(matched, [true, false, false, false], "{value:?}: {response:?}");
    }
    let api = rate_limit(&service, &[descriptor(&[("path", "/api/\r\n\0"), ("method", "GET")])]);
    assert_eq!(api.statuses[0].current_limit.as_ref().map(|limit| limit.name.as_str()), Some("api"));
}

#[test]
fn invalid_utf8_is_an_error_and_charges_nothing() {
    let service = TestService::with_policy(POLICY);
    let pair = |key: &[u8], value: &[u8]| RawEntry { key: key.to_vec(), value: value.to_vec() };
    let good = || RawDescriptor { entries: vec![pair(b"remote_address", b"203.0.113.9")] };
    let request_with = |domain: &[u8], entry: RawEntry| RawRateLimitRequest {
        domain: domain.to_vec(),
        descriptors: vec![good(), RawDescriptor { entries: vec![entry] }],
    };
    let call = |request: RawRateLimitRequest| -> Result<RateLimitResponse, _> {
        service.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", request)
    };
    // Invalid bytes, a truncated character, a surrogate, and an overlong NUL.
    for bytes in [&b"\xff\xfe\r\n"[..], b"ann\xc3", b"\xed\xa0\x80", b"\xc0\x80"] {
        for request in [
            request_with(b"edge", pair(b"user", bytes)),
            request_with(b"edge", pair(bytes, b"ann")),
            request_with(bytes, pair(b"user", b"ann")),
        ] {
            let (code, message) = call(request).unwrap_err();
            assert_eq!(code, Code::InvalidArgument, "{bytes:?}: {message}");
            assert!(message.contains("UTF-8") && message.is_ascii() && !message.contains(['\r', '\n']), "{message:?}");
        }
    }
    assert_eq!(call(request_with(b"edge", pair(b"user", b"ann"))).unwrap().codes(), [OK; 2]);
}

#[test]
fn long_values_are_compared_in_full() {
    let service = TestService::with_policy(POLICY);
    let long = |last: char| format!("{}{last}", "x".repeat(60_000));
    let code = |value: &str| rate_limit(&service, &[descriptor(&[("user", value)])]).overall_code;
    assert_eq!([code(&long('a')), code(&long('a')), code(&long('b'))], [OK, OVER_LIMIT, OK]);
    // The same text as a path, an address, a method and an entry name: none of them is valid or known.
    let long = long('a');
    for entry in [("path", long.as_str()), ("remote_address", &long), ("method", &long), (&long, "ann")] {
        assert_eq!(rate_limit(&service, &[descriptor(&[entry])]).overall_code, OK);
    }
}

/// A token that cannot be used is counted by address, refused like a denied client, or ignored.
#[test]
fn unusable_tokens_follow_on_invalid() {
    let policy = |on_invalid: &str| {
        format!(
            "version: 1
identity:
  token: {{ bearer: true, on_invalid: {on_invalid} }}
rules:
  - {{ name: per-token, key: token, limit: 1/min }}
"
        )
    };
    let long = format!("Bearer {}", "x".repeat(17 << 10));
    let codes = |on_invalid: &str| {
        let service = TestService::with_policy(&policy(on_invalid));
        let code = |address: &str| {
            rate_limit(&service, &[descriptor(&[("remote_address", address), ("authorization", &long)])]).overall_code
        };
        [code("203.0.113.9"), code("203.0.113.9"), code("203.0.113.10")]
    };
    assert_eq!(codes("count"), [OK, OVER_LIMIT, OK]);
    assert_eq!(codes("refuse"), [OVER_LIMIT; 3]);
    assert_eq!(codes("absent"), [OK; 3]);
    // One refused descriptor refuses the call, and the others are not charged.
    let service = TestService::with_policy(&policy("refuse"));
    let good = descriptor(&[("authorization", "Bearer k1")]);
    let both = rate_limit(&service, &[good.clone(), descriptor(&[("authorization", &long)])]);
    assert_eq!((both.overall_code, both.codes()), (OVER_LIMIT, vec![OK, OVER_LIMIT]));
    assert_eq!(rate_limit(&service, &[good]).overall_code, OK);
}
