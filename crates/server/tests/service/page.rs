//! The files of the page, and the admin calls that only the page needs.

use serde_json::{Value, json};
use tollgate::policy::parse;
use tollgate_server::{AccessToken, AdminAccess, PolicySource};

use crate::admin::{POLICY, TOKEN, admin_request, admin_request_with};
use crate::test_service::TestService;

/// What a browser may load for the page in all.
const MAX_PAGE_BYTES: usize = 150_000;

/// The paths of scripts, styles and images in a file of the page.
fn references(service: &TestService, path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').unwrap().0;
    let absolute = text.split('"').filter(|quoted| quoted.starts_with("/page/")).map(str::to_owned);
    let imports = text.split("from \"").skip(1).map(|rest| {
        let name = rest.split('"').next().unwrap();
        match name.strip_prefix("../") {
            Some(above) => format!("{}/{above}", folder.rsplit_once('/').unwrap().0),
            None => format!("{folder}/{}", name.strip_prefix("./").unwrap()),
        }
    });
    let found = absolute.chain(imports).collect::<Vec<String>>();
    assert!(found.iter().all(|path| admin_request(service, "GET", path, "").status == 200), "{path}: {found:?}");
    found
}

#[test]
fn page_is_small_and_all_its_files_have_a_strict_policy() {
    let service = TestService::with_policy(POLICY);
    let mut paths = vec!["/".to_owned()];
    let (mut at, mut bytes) = (0, 0);
    while let Some(path) = paths.get(at).cloned() {
        let file = admin_request(&service, "GET", &path, "");
        assert_eq!(file.status, 200, "{path}");
        let policy = file.field("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(file.field("x-content-type-options"), Some("nosniff"), "{path}");
        let kind = match path.rsplit('.').next().unwrap() {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(file.field("content-type"), Some(kind), "{path}");
        bytes += file.body.len();
        let new = references(&service, &path, &file.body).into_iter().filter(|found| !paths.contains(found));
        let new: Vec<String> = new.collect();
        paths.extend(new);
        paths.dedup();
        at += 1;
    }
    assert!(paths.len() > 20 && bytes < MAX_PAGE_BYTES, "{bytes} bytes in {paths:?}");
    assert_eq!(admin_request(&service, "POST", "/", "").status, 405);
    assert_eq!(admin_request(&service, "GET", "/page/none.js", "").status, 404);
}

#[test]
fn page_is_served_without_the_token_and_the_api_is_not() {
    let access = AdminAccess { token: Some(AccessToken::new(TOKEN).unwrap()), ..AdminAccess::default() };
    let service = TestService::with_admin_access(POLICY, access);
    assert_eq!(admin_request(&service, "GET", "/", "").status, 200);
    assert_eq!(admin_request(&service, "GET", "/page/script/main.js", "").status, 200);
    for (method, path) in [
        ("GET", "/api/live"),
        ("GET", "/api/status"),
        ("GET", "/api/policy"),
        ("POST", "/api/explain"),
        ("POST", "/api/compare"),
    ] {
        assert_eq!(admin_request(&service, method, path, "{}").status, 401, "{path}");
    }
}

#[test]
fn state_changes_need_another_method_than_get_and_a_page_of_this_site() {
    let service = TestService::with_policy(POLICY);
    for path in ["/api/reload", "/api/explain", "/api/compare", "/api/overrides/per-user/alice"] {
        assert_eq!(admin_request(&service, "GET", path, "").status, 405, "{path}");
    }
    let calls = [
        ("POST", "/api/reload"),
        ("POST", "/api/explain"),
        ("POST", "/api/compare"),
        ("PUT", "/api/keys/per-user/alice"),
        ("DELETE", "/api/keys/per-user/alice"),
        ("DELETE", "/api/overrides/per-user/alice"),
        ("GET", "/api/live"),
        ("GET", "/api/policy"),
    ];
    for (method, path) in calls {
        for fields in ["origin: http://evil.example\r\n", "origin: null\r\n", "sec-fetch-site: same-site\r\n"] {
            assert_eq!(admin_request_with(&service, fields, method, path, "").status, 403, "{method} {path} {fields}");
        }
        // A name that its owner has pointed at this machine.
        let mut connection = crate::client::Connection::open(service.admin);
        connection.send(&format!("{method} {path} HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 0\r\n\r\n"));
        assert_eq!(connection.response().status, 403, "{method} {path}");
    }
}

#[test]
fn explanation_charges_and_counts_nothing() {
    let service = TestService::with_policy(POLICY);
    let body = r#"{"ip":"203.0.113.9","identities":{"user":"alice"}}"#;
    let decisions = |service: &TestService| {
        let metrics = admin_request(service, "GET", "/metrics", "").body;
        metrics.lines().filter(|line| line.starts_with("tollgate_decisions_total")).collect::<String>()
    };
    let before = decisions(&service);
    for _ in 0..3 {
        let explained = admin_request(&service, "POST", "/api/explain", body).json();
        assert_eq!(explained["explanation"]["rules"][0]["key"], "alice");
        assert_eq!(explained["now"]["rules"][0]["remaining"], 2, "{explained}");
    }
    assert_eq!(decisions(&service), before);
    service.check(body);
    assert_eq!(admin_request(&service, "POST", "/api/explain", body).json()["now"]["rules"][0]["remaining"], 1);
    let wrong = admin_request(&service, "POST", "/api/explain", r#"{"ip":"x"}"#);
    assert_eq!((wrong.status, &wrong.json()["member"]), (400, &json!("ip")));
}

#[test]
fn comparison_has_the_figures_and_the_course_of_each_algorithm() {
    let service = TestService::with_policy(POLICY);
    let compared = admin_request(&service, "POST", "/api/compare", r#"{"limit":"10/min","traffic":"boundary"}"#).json();
    assert_eq!((&compared["limit"], &compared["requests"]), (&json!("10/min"), &json!(20)));
    let admitted = |name: &str| {
        let algorithms = compared["algorithms"].as_array().unwrap();
        algorithms.iter().find(|one| one["algorithm"] == name).unwrap()["admitted"].clone()
    };
    assert_eq!((admitted("fixed-window"), admitted("sliding-window-log")), (json!(20), json!(10)));
    let drawn = admin_request(&service, "POST", "/api/compare", r#"{"limit":"10/min","drawn":[0,30]}"#).json();
    let sum = |list: &Value| -> u64 { list.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum() };
    let timeline = &drawn["timeline"];
    assert_eq!((sum(&timeline["requests"]), sum(&timeline["algorithms"][4]["passed"])), (30, 10));
    assert_eq!(timeline["windows_begin_us"], json!([0, 60_000_000]));
}

#[test]
fn comparisons_are_bounded() {
    let service = TestService::with_policy(POLICY);
    for (body, reason) in [
        (r#"{"limit":"501/min","traffic":"boundary"}"#, "at most 500"),
        (r#"{"limit":"5/min burst 501","traffic":"boundary"}"#, "at most 500"),
        (r#"{"limit":"no","traffic":"boundary"}"#, "`limit` must be"),
        (r#"{"limit":"5/min","traffic":"none"}"#, "`traffic` must be"),
        (r#"{"limit":"5/min"}"#, "`traffic` must be"),
        (r#"{"limit":"5/min","traffic":"burst","drawn":[1]}"#, "`traffic` must be"),
        (r#"{"limit":"5/min","drawn":[5001]}"#, "at most 5000 in all"),
        (r#"{"limit":"5/min","drawn":[18446744073709551615,1]}"#, "at most 5000 in all"),
        (r#"{"limit":"5/min","drawn":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}"#, "at most 16 numbers"),
        (r#"{"limit":"5/min","drawn":[-1]}"#, "`drawn` must be"),
        ("nonsense", "invalid body"),
    ] {
        let response = admin_request(&service, "POST", "/api/compare", body);
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(response.status == 400 && detail.contains(reason), "{body}: {detail}");
    }
    let largest = admin_request(&service, "POST", "/api/compare", r#"{"limit":"500/min","traffic":"poisson"}"#);
    assert_eq!(largest.status, 200);
    assert_eq!(largest.json()["requests"], 65_000);
    let none = admin_request(&service, "POST", "/api/compare", r#"{"limit":"1/year","drawn":[]}"#);
    assert_eq!((none.status, &none.json()["requests"]), (200, &json!(0)), "{none:?}");
}

#[test]
fn policy_is_shown_with_its_reloads_and_without_credentials() {
    let service = TestService::with_policy(POLICY);
    let unknown = admin_request(&service, "GET", "/api/policy", "").json();
    assert_eq!((&unknown["file"], &unknown["text"], &unknown["rules"]), (&Value::Null, &Value::Null, &json!(2)));
    let text = "version: 1\n# redis://app:hunter2@10.0.0.1\nidentity: { api_key: { header: X-API-Key, secret: true } }\n\
                deny: { api_key: [sk-leaked] }\nrules: [{ name: a, limit: 1/s }]\n";
    let loaded = parse(text, "policy.yaml", None).unwrap();
    service.engine.set_policy_source(PolicySource::new("policy.yaml", &loaded.text, &loaded.policy));
    service.engine.note_reload(Ok("1 rule added"));
    service.engine.note_reload(Err("policy.yaml:4:10: error:\n  password: hunter2\n  deny: sk-leaked"));
    let shown = admin_request(&service, "GET", "/api/policy", "");
    assert!(!shown.body.contains("hunter2") && !shown.body.contains("sk-leaked"), "{}", shown.body);
    let shown = shown.json();
    assert!(shown["text"].as_str().unwrap().contains("deny: { api_key: [[hidden]] }"), "{shown}");
    assert_eq!(
        (&shown["reloads"][0]["done"], &shown["reloads"][1]["message"]),
        (&json!(false), &json!("1 rule added"))
    );
}
