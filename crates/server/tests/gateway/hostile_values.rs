//! Values that no gateway means to send: its clients chose them.

use prost::Message;
use tonic::Code;

use crate::messages::{Answer, Described, OK, OVER_LIMIT, ask, descriptor};
use crate::running::Running;

const POLICY: &str = "version: 1
identity:
  user: { given: true }
deny: { client_ip: 192.0.2.0/24 }
rules:
  - { name: per-ip, key: client_ip, limit: 1/min }
  - { name: per-user, key: user, limit: 1/min }
  - { name: api, when: { path: /api/*, method: GET }, limit: 100/min }
";

/// Text that would be something else in a header, in a log, or in C.
const HOSTILE: [&str; 6] = [
    "ann\r\nset-cookie: admin=1",
    "ann\r\n\r\nHTTP/1.1 200 OK",
    "ann\0",
    "\0",
    "\u{1b}[2J\u{7f}",
    "\u{2028}\u{feff}\u{202e}",
];

/// A question in which text is any bytes.
#[derive(Clone, PartialEq, Message)]
struct RawAsk {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<RawDescribed>,
}

#[derive(Clone, PartialEq, Message)]
struct RawDescribed {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<RawPair>,
}

#[derive(Clone, PartialEq, Message)]
struct RawPair {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// The answer, which has nothing in it that would end a line, or a header.
fn answer(service: &Running, descriptors: &[Described]) -> Answer {
    let answer = service.answer(&ask(descriptors));
    for header in &answer.response_headers_to_add {
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        assert!(is_plain(&header.key) && is_plain(&header.value), "{header:?}");
    }
    answer
}

#[test]
fn a_value_is_a_key_whatever_is_in_it() {
    let service = Running::under(POLICY);
    for value in HOSTILE {
        let of_user = [descriptor(&[("user", value)])];
        let first = answer(&service, &of_user);
        assert_eq!(first.overall_code, OK, "{value:?}");
        assert!(first.header("ratelimit").is_some_and(|field| field.starts_with("\"per-user\"")), "{first:?}");
        assert_eq!(answer(&service, &of_user).overall_code, OVER_LIMIT, "{value:?}");
    }
    // Whoever is called like the beginning of one of them is somebody else.
    assert_eq!(answer(&service, &[descriptor(&[("user", "ann")])]).overall_code, OK);
    // A value is what the gateway sends: the space around it is part of it, and space alone is a value.
    for value in ["\r\n", " ", " ann", "ann "] {
        let of_user = [descriptor(&[("user", value)])];
        let codes = [answer(&service, &of_user).overall_code, answer(&service, &of_user).overall_code];
        assert_eq!(codes, [OK, OVER_LIMIT], "{value:?}");
    }
}

#[test]
fn what_is_no_address_is_counted_as_text_and_what_is_no_method_or_path_meets_no_rule() {
    let service = Running::under(POLICY);
    for value in HOSTILE {
        let address = format!("203.0.113.9{value}");
        let method = format!("GET{value}");
        let answer = answer(
            &service,
            &[
                descriptor(&[("remote_address", &address)]),
                descriptor(&[("path", "/api/a"), ("method", &method)]),
                descriptor(&[("path", value), ("method", "GET")]),
                descriptor(&[(value, "ann")]),
            ],
        );
        assert_eq!(answer.codes(), [OK; 4], "{value:?}");
        // Otherwise a gateway that writes addresses in a way of its own would limit nobody.
        let met: Vec<bool> = answer.statuses.iter().map(|status| status.current_limit.is_some()).collect();
        assert_eq!(met, [true, false, false, false], "{value:?}: {answer:?}");
    }
    let api = answer(&service, &[descriptor(&[("path", "/api/\r\n\0"), ("method", "GET")])]);
    assert_eq!(api.statuses[0].current_limit.as_ref().map(|limit| limit.name.as_str()), Some("api"));
}

#[test]
fn text_that_is_no_utf_8_is_an_error_and_charges_nobody() {
    let service = Running::under(POLICY);
    let pair = |key: &[u8], value: &[u8]| RawPair { key: key.to_vec(), value: value.to_vec() };
    let good = || RawDescribed { entries: vec![pair(b"remote_address", b"203.0.113.9")] };
    let about = |domain: &[u8], entry: RawPair| RawAsk {
        domain: domain.to_vec(),
        descriptors: vec![good(), RawDescribed { entries: vec![entry] }],
    };
    let call = |question: RawAsk| -> Result<Answer, _> {
        service.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", question)
    };
    // Not at all, cut off within a character, a surrogate, and a NUL in two bytes.
    for bytes in [&b"\xff\xfe\r\n"[..], b"ann\xc3", b"\xed\xa0\x80", b"\xc0\x80"] {
        for question in [
            about(b"edge", pair(b"user", bytes)),
            about(b"edge", pair(bytes, b"ann")),
            about(bytes, pair(b"user", b"ann")),
        ] {
            let (code, message) = call(question).unwrap_err();
            assert_eq!(code, Code::InvalidArgument, "{bytes:?}: {message}");
            assert!(message.contains("UTF-8") && message.is_ascii() && !message.contains(['\r', '\n']), "{message:?}");
        }
    }
    assert_eq!(call(about(b"edge", pair(b"user", b"ann"))).unwrap().codes(), [OK; 2]);
}

#[test]
fn long_values_are_compared_to_their_ends() {
    let service = Running::under(POLICY);
    let long = |last: char| format!("{}{last}", "x".repeat(60_000));
    let code = |value: &str| answer(&service, &[descriptor(&[("user", value)])]).overall_code;
    assert_eq!([code(&long('a')), code(&long('a')), code(&long('b'))], [OK, OVER_LIMIT, OK]);
    // As a path, an address, a method and a name, none of which is any.
    let long = long('a');
    for entry in [("path", long.as_str()), ("remote_address", &long), ("method", &long), (&long, "ann")] {
        assert_eq!(answer(&service, &[descriptor(&[entry])]).overall_code, OK);
    }
}

/// A gateway that passes on a token that cannot be used: counted by address, or refused like a denied client.
#[test]
fn a_token_that_cannot_be_used_does_not_pass_uncounted() {
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
        let service = Running::under(&policy(on_invalid));
        let code = |address: &str| {
            answer(&service, &[descriptor(&[("remote_address", address), ("authorization", &long)])]).overall_code
        };
        [code("203.0.113.9"), code("203.0.113.9"), code("203.0.113.10")]
    };
    assert_eq!(codes("count"), [OK, OVER_LIMIT, OK]);
    assert_eq!(codes("refuse"), [OVER_LIMIT; 3]);
    assert_eq!(codes("absent"), [OK; 3]);
    // One descriptor of a call is enough, and then the others are not charged.
    let service = Running::under(&policy("refuse"));
    let good = descriptor(&[("authorization", "Bearer k1")]);
    let both = answer(&service, &[good.clone(), descriptor(&[("authorization", &long)])]);
    assert_eq!((both.overall_code, both.codes()), (OVER_LIMIT, vec![OK, OVER_LIMIT]));
    assert_eq!(answer(&service, &[good]).overall_code, OK);
}
