//! What every gateway has to show. Each of these is one test of each program.

use std::time::Duration;

use crate::client::Seen;
use crate::gateway::Gateway;
use crate::recipe::{DENIED_HOST, PROXY_HOST};

/// What a program can pass on to its clients.
pub(crate) struct Passes {
    /// Whether a client learns where it stands while it is allowed.
    pub(crate) fields_when_allowed: bool,
    /// Whether a refusal has the problem in its body.
    pub(crate) problem: bool,
}

const POLICY_FIELD: &str = r#""per-ip";q=5;w=5"#;

/// Bounds how many requests a slow machine, which refills as it goes, lets pass.
const REFUSED_WITHIN: usize = 100;

/// What a client may write to be taken for somebody, or something, else.
const FORGED: [(&str, &str); 7] = [
    ("X-Forwarded-For", "203.0.113.77"),
    ("X-Real-IP", "203.0.113.77"),
    ("Forwarded", "for=203.0.113.77"),
    ("X-Forwarded-Uri", "/"),
    ("X-Forwarded-Method", "GET"),
    ("X-Original-URI", "/"),
    ("X-Original-Method", "GET"),
];

/// Asks a gateway to drop what it has written itself.
const DROPPED: (&str, &str) = ("Connection", "close, X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method, X-Real-IP");

pub(crate) fn limited_told_and_let_in_again(gateway: &Gateway, passes: &Passes) {
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
    let refused = (0..REFUSED_WITHIN).map(|_| client.get("/")).find(|seen| seen.status != 200).unwrap();
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
    // A real server has real time, so there is no other way than to wait.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(client.get("/").status, 200);
}

/// A request that passes with a warning: the client is told, or else the service.
pub(crate) fn warned(gateway: &Gateway, passes: &Passes) {
    let client = gateway.client(8);
    let seen = [(); 3].map(|()| client.get("/warned"));
    assert_eq!(seen.each_ref().map(|seen| seen.status), [200, 200, 429], "{seen:?}");
    let warnings = seen.each_ref().map(|seen| match passes.fields_when_allowed {
        true => seen.field("x-ratelimit-warning") == Some("warned"),
        false => seen.body.contains("\nx-ratelimit-warning: warned\r\n"),
    });
    assert_eq!(warnings, [false, true, false], "{seen:?}");
}

pub(crate) fn told_apart_whatever_they_write(gateway: &Gateway) {
    let login = |host, fields: &[(&str, &str)]| gateway.client(host).post("/login?next=%2F", fields, "").status;
    assert_eq!([login(3, &[]), login(3, &[]), login(3, &[])], [200, 200, 429]);
    for field in FORGED {
        assert_eq!(login(3, &[field]), 429, "{field:?}");
    }
    assert_eq!(login(3, &FORGED[..3]), 429);
    // A gateway may also have no patience with that.
    assert!(matches!(login(3, &[DROPPED]), 429 | 400));
    assert_eq!(login(4, &[]), 200);
    // What was refused was charged to nobody, so that other pages are still open.
    assert_eq!(gateway.client(3).get("/").status, 200);
}

/// However the path is written that the gateway serves as a login, it is one.
pub(crate) fn limited_however_the_path_is_written(gateway: &Gateway) {
    let ask = |path: &str| gateway.client(9).post(path, &[], "").status;
    assert_eq!([ask("/zz%2f..%2flogin"), ask("//%6cogin"), ask("/x/../login"), ask("/login")], [200, 200, 429, 429]);
}

/// The proxy in front of the gateway, which the recipe trusts, says who the client is.
pub(crate) fn told_apart_behind_a_trusted_proxy(gateway: &Gateway) {
    let proxy = gateway.client(PROXY_HOST);
    let login = |addresses: &str| proxy.post("/login", &[("X-Forwarded-For", addresses)], "").status;
    let statuses = |all: &[&str]| all.iter().map(|addresses| login(addresses)).collect::<Vec<u16>>();
    assert_eq!(statuses(&["203.0.113.1", "203.0.113.1", "203.0.113.1"]), [200, 200, 429]);
    // What the client wrote itself stands before what the proxy saw.
    assert_eq!(statuses(&["203.0.113.50, 203.0.113.1", "127.0.0.1, 203.0.113.1"]), [429, 429]);
    // There may be several of these proxies, one behind the other.
    assert_eq!(statuses(&[&format!("203.0.113.1, 127.0.0.{PROXY_HOST}")]), [429]);
    // And it passes on what the client wrote into other fields.
    for field in FORGED.into_iter().filter(|(name, _)| *name != "X-Forwarded-For") {
        let seen = proxy.post("/login", &[("X-Forwarded-For", "203.0.113.1"), field], "");
        assert_eq!(seen.status, 429, "{seen:?} with {field:?}");
    }
    assert_eq!(statuses(&["203.0.113.2"]), [200]);
}

/// What a client sees without tollgate; `refused` is the status where that is refused.
pub(crate) fn does_as_chosen_without_tollgate(gateway: &Gateway, refused: Option<u16>) {
    let seen = gateway.client(5).post("/things", &[], "a body");
    assert_eq!(seen.status, refused.unwrap_or(200), "{seen:?}");
    assert_eq!(reached_the_service(&seen), refused.is_none(), "{seen:?}");
}

/// Without the service, a client sees `unserved` until it is limited.
pub(crate) fn counted_without_the_service(gateway: &Gateway, unserved: u16) {
    let statuses: Vec<u16> = (0..3).map(|_| gateway.client(6).post("/login", &[], "").status).collect();
    assert_eq!(statuses, [unserved, unserved, 429]);
}

fn reached_the_service(seen: &Seen) -> bool {
    seen.body.starts_with("post /things http/1.") && seen.body.ends_with("\r\n\r\na body")
}
