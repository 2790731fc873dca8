//! Scenarios that are tests of every gateway.

use std::time::Duration;

use crate::client::GatewayResponse;
use crate::gateway::Gateway;
use crate::recipe::{DENIED_HOST, PROXY_HOST};

/// What a gateway can forward to its clients.
pub(crate) struct Passes {
    /// Whether an allowed client gets the rate limit fields.
    pub(crate) fields_when_allowed: bool,
    /// Whether a refusal has the problem details in its body.
    pub(crate) problem: bool,
}

const POLICY_FIELD: &str = r#""per-ip";q=5;w=5"#;

/// The most requests until one is refused. On a slow machine the bucket refills meanwhile.
const REFUSED_WITHIN: usize = 100;

/// Fields with which a client may claim another address, path or method.
const FORGED: [(&str, &str); 7] = [
    ("X-Forwarded-For", "203.0.113.77"),
    ("X-Real-IP", "203.0.113.77"),
    ("Forwarded", "for=203.0.113.77"),
    ("X-Forwarded-Uri", "/"),
    ("X-Forwarded-Method", "GET"),
    ("X-Original-URI", "/"),
    ("X-Original-Method", "GET"),
];

/// A field that asks a gateway to remove the fields that it adds.
const DROPPED: (&str, &str) = ("Connection", "close, X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method, X-Real-IP");

pub(crate) fn limited_and_allowed_after_the_wait(gateway: &Gateway, passes: &Passes) {
    let client = gateway.client(2);
    let passed = client.post("/things?deny_status=418", &[], "a body");
    assert_eq!(passed.status, 200, "{passed:?}");
    assert!(passed.body.starts_with("post /things?deny_status=418 http/1."), "{passed:?}");
    assert!(passed.body.ends_with("\r\n\r\na body"), "{passed:?}");
    if passes.fields_when_allowed {
        assert_eq!(passed.field("ratelimit-policy"), Some(POLICY_FIELD), "{passed:?}");
        assert_eq!(passed.field("ratelimit"), Some(r#""per-ip";r=4;t=1"#), "{passed:?}");
        assert_eq!(passed.field("x-ratelimit-limit"), Some("5"), "{passed:?}");
    } else {
        assert_eq!(passed.field("ratelimit"), None, "{passed:?}");
        assert!(passed.body.contains(&format!("\nratelimit-policy: {POLICY_FIELD}\r\n")), "{passed:?}");
    }
    let refused = (0..REFUSED_WITHIN).map(|_| client.get("/")).find(|response| response.status != 200).unwrap();
    assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")), "{refused:?}");
    assert_eq!(refused.field("ratelimit"), Some(r#""per-ip";r=0;t=1"#), "{refused:?}");
    assert_eq!(refused.field("ratelimit-policy"), Some(POLICY_FIELD), "{refused:?}");
    assert_eq!(refused.field("x-ratelimit-remaining"), Some("0"), "{refused:?}");
    if passes.problem {
        let problem = refused.problem();
        assert_eq!((&problem["status"], &problem["rule"]), (&429.into(), &"per-ip".into()), "{problem}");
        assert_eq!(problem["violated-policies"], serde_json::json!(["per-ip"]), "{problem}");
    }
    let denied = gateway.client(DENIED_HOST).get("/");
    if passes.problem {
        assert_eq!((denied.status, &denied.problem()["status"]), (403, &403.into()), "{denied:?}");
        assert_eq!(denied.field("retry-after"), None, "{denied:?}");
    } else {
        assert_eq!(denied.status, 429, "{denied:?}");
    }
    // The process uses the real clock, so the test must wait.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(client.get("/").status, 200);
}

/// A request that passes with a warning: the client gets the field, or else the upstream.
pub(crate) fn warned(gateway: &Gateway, passes: &Passes) {
    let client = gateway.client(8);
    let response = [(); 3].map(|()| client.get("/warned"));
    assert_eq!(response.each_ref().map(|response| response.status), [200, 200, 429], "{response:?}");
    let warnings = response.each_ref().map(|response| match passes.fields_when_allowed {
        true => response.field("x-ratelimit-warning") == Some("warned"),
        false => response.body.contains("\nx-ratelimit-warning: warned\r\n"),
    });
    assert_eq!(warnings, [false, true, false], "{response:?}");
}

pub(crate) fn forged_fields_are_ignored(gateway: &Gateway) {
    let login = |host, fields: &[(&str, &str)]| gateway.client(host).post("/login?next=%2F", fields, "").status;
    assert_eq!([login(3, &[]), login(3, &[]), login(3, &[])], [200, 200, 429]);
    for field in FORGED {
        assert_eq!(login(3, &[field]), 429, "{field:?}");
    }
    assert_eq!(login(3, &FORGED[..3]), 429);
    // A gateway may also reject the request.
    assert!(matches!(login(3, &[DROPPED]), 429 | 400));
    assert_eq!(login(4, &[]), 200);
    // Refused requests were not charged, so other paths are still allowed.
    assert_eq!(gateway.client(3).get("/").status, 200);
}

/// Every spelling of the path that the gateway serves as a login is limited as a login.
pub(crate) fn every_spelling_of_a_path_is_limited_together(gateway: &Gateway) {
    let post = |path: &str| gateway.client(9).post(path, &[], "").status;
    assert_eq!(
        [post("/zz%2f..%2flogin"), post("//%6cogin"), post("/x/../login"), post("/login")],
        [200, 200, 429, 429]
    );
}

/// The trusted proxy in front of the gateway sends the address of the client.
pub(crate) fn distinguished_behind_a_trusted_proxy(gateway: &Gateway) {
    let proxy = gateway.client(PROXY_HOST);
    let login = |addresses: &str| proxy.post("/login", &[("X-Forwarded-For", addresses)], "").status;
    let statuses = |all: &[&str]| all.iter().map(|addresses| login(addresses)).collect::<Vec<u16>>();
    assert_eq!(statuses(&["203.0.113.1", "203.0.113.1", "203.0.113.1"]), [200, 200, 429]);
    // Addresses that the client sent precede the one that the proxy adds.
    assert_eq!(statuses(&["203.0.113.50, 203.0.113.1", "127.0.0.1, 203.0.113.1"]), [429, 429]);
    // There may be a chain of trusted proxies.
    assert_eq!(statuses(&[&format!("203.0.113.1, 127.0.0.{PROXY_HOST}")]), [429]);
    // The proxy forwards other fields of the client.
    for field in FORGED.into_iter().filter(|(name, _)| *name != "X-Forwarded-For") {
        let response = proxy.post("/login", &[("X-Forwarded-For", "203.0.113.1"), field], "");
        assert_eq!(response.status, 429, "{response:?} with {field:?}");
    }
    assert_eq!(statuses(&["203.0.113.2"]), [200]);
}

/// The response without tollgate; `refused` is the status if the gateway refuses.
pub(crate) fn passes_or_refuses_without_tollgate(gateway: &Gateway, refused: Option<u16>) {
    let response = gateway.client(5).post("/things", &[], "a body");
    assert_eq!(response.status, refused.unwrap_or(200), "{response:?}");
    assert_eq!(reached_the_upstream(&response), refused.is_none(), "{response:?}");
}

/// Without the upstream, a client gets `unserved` until it is limited.
pub(crate) fn counted_without_the_upstream(gateway: &Gateway, unserved: u16) {
    let statuses: Vec<u16> = (0..3).map(|_| gateway.client(6).post("/login", &[], "").status).collect();
    assert_eq!(statuses, [unserved, unserved, 429]);
}

fn reached_the_upstream(response: &GatewayResponse) -> bool {
    response.body.starts_with("post /things http/1.") && response.body.ends_with("\r\n\r\na body")
}
