//! Authentication on the listeners that answer decisions.

use std::os::unix::fs::PermissionsExt;

use crate::client::{Connection, Response};
use crate::reload::Directory;
use crate::resp_client::{Reply, RespClient, error, integers, ok};
use crate::running::{Running, tollgate};

const TOKEN: &str = "a-token-of-a-gateway";
const NEXT: &str = "the-next-token-of-a-gateway";

fn send(server: std::net::SocketAddr, method: &str, target: &str, lines: &str, body: &str) -> Response {
    let mut connection = Connection::open(server);
    let length = body.len();
    connection.send(&format!("{method} {target} HTTP/1.1\r\n{lines}content-length: {length}\r\n\r\n{body}"));
    connection.response()
}

/// A browser sends such a request for a page of any site: `text/plain` needs no preflight.
#[test]
fn cross_site_requests_of_browsers_charge_nothing() {
    let tollgate = Running::serve();
    let body = r#"{"ip":"203.0.113.9"}"#;
    let host = tollgate.http.to_string();
    let page = format!("host: {host}\r\ncontent-type: text/plain\r\norigin: https://evil.example\r\n");
    for path in ["/v1/check", "/v1/check/batch", "/v1/refund", "/v1/settle", "/v1/release"] {
        let refused = send(tollgate.http, "POST", path, &page, body);
        assert_eq!((refused.status, refused.field("content-type")), (403, Some("application/problem+json")), "{path}");
    }
    let newer = format!("host: {host}\r\nsec-fetch-site: cross-site\r\n");
    assert_eq!(send(tollgate.http, "POST", "/v1/check", &newer, body).status, 403);
    let rebound = "host: evil.example:8080\r\norigin: http://evil.example:8080\r\nsec-fetch-site: same-origin\r\n";
    assert_eq!(send(tollgate.http, "POST", "/v1/check", rebound, body).status, 403);
    // Nothing was charged: the next check is the first of 60.
    let first = send(tollgate.http, "POST", "/v1/check", &format!("host: {host}\r\n"), body);
    assert!(first.status == 200 && first.body.contains(r#""remaining":59"#), "{first:?}");
    // A gateway forwards the fields of its client.
    assert_eq!(send(tollgate.http, "GET", "/v1/forward-auth", &page, "").status, 200);
}

#[test]
fn every_listener_requires_the_access_token() {
    let directory = Directory::new("access");
    let file = directory.write("token", TOKEN);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", ":0", "--access-token-file", &file]);
    let check = |lines: &str| send(tollgate.http, "POST", "/v1/check", &format!("host: x\r\n{lines}"), "{}").status;
    let bearer = |token: &str| format!("authorization: Bearer {token}\r\n");
    assert_eq!((check(""), check(&bearer(NEXT)), check(&bearer(TOKEN))), (401, 401, 200));
    assert_eq!(check(&format!("x-tollgate-token: {TOKEN}\r\n")), 200);
    assert_eq!(send(tollgate.http, "GET", "/healthz", "host: x\r\n", "").status, 200);
    assert_eq!(send(tollgate.http, "GET", "/metrics", "host: x\r\n", "").status, 401);
    let forward =
        |target: &str, lines: &str| send(tollgate.http, "GET", target, &format!("host: x\r\n{lines}"), "").status;
    let target = format!("/v1/forward-auth?token={TOKEN}");
    assert_eq!(forward("/v1/forward-auth", &bearer(TOKEN)), 401);
    assert_eq!((forward(&target, &bearer("a-clients-own-token")), forward("/v1/forward-auth?token=x", "")), (200, 401));

    let mut redis = RespClient::open(tollgate.resp.unwrap());
    let no_auth = error("NOAUTH Authentication required.");
    let wrong = error("WRONGPASS invalid username-password pair or user is disabled.");
    for command in ["CL.THROTTLE a 5 10 60", "TOLL.CHECK ip 203.0.113.9", "PING", "INFO", "COMMAND COUNT", "CLIENT ID"]
    {
        assert_eq!(redis.call(command), no_auth, "{command}");
    }
    let Reply::Error(hello) = redis.call("HELLO 3") else { panic!("HELLO needs no token") };
    assert!(hello.starts_with("NOAUTH HELLO must be called"), "{hello}");
    assert_eq!(redis.call(&format!("AUTH {NEXT}")), wrong);
    assert_eq!(redis.call(&format!("AUTH admin {TOKEN}")), wrong);
    assert_eq!(redis.call("PING"), no_auth);
    assert_eq!(redis.call(&format!("AUTH {TOKEN}")), ok());
    assert_eq!(redis.call("CL.THROTTLE a 5 10 60"), integers(&[0, 6, 5, -1, 6]));
    assert_eq!(redis.call("RESET"), Reply::Simple("RESET".to_owned()));
    assert_eq!(redis.call("PING"), no_auth);
    assert!(matches!(redis.call(&format!("HELLO 2 AUTH default {TOKEN}")), Reply::List(_)));
    assert_eq!(redis.call("PING"), Reply::Simple("PONG".to_owned()));

    let said = tollgate.any_line_of("refused_call");
    assert!(said.contains(" listener=http why=no_token method=POST from=127.0.0.1"), "{said}");
    directory.write("token", NEXT);
    assert_eq!(tollgate.line(), "tollgate: the access token was reloaded: only the new token is accepted from now on");
    assert_eq!(send(tollgate.http, "POST", "/v1/check", &format!("host: x\r\n{}", bearer(NEXT)), "{}").status, 200);
}

#[test]
fn listening_on_other_addresses_without_protection_logs_a_warning() {
    let warnings = |more: &[&str]| -> Vec<String> {
        let mut command = tollgate(&["serve", "--http", "0.0.0.0:0", "--resp", "0.0.0.0:0", "--grpc", "off"]);
        command.args(["--admin", ":0"]).args(more).env_remove("NOTIFY_SOCKET");
        let said = Running::lines_until(command, "rule");
        said.into_iter().filter(|line| line.starts_with("tollgate: warning: listeners ")).collect()
    };
    let without = warnings(&[]);
    assert_eq!(without.len(), 1, "{without:?}");
    assert!(without[0].contains("open to other machines (http, resp) without a token and without TLS"), "{without:?}");
    let directory = Directory::new("beyond");
    let file = directory.write("token", TOKEN);
    let with_token = warnings(&["--access-token-file", &file]);
    assert!(with_token.len() == 1 && with_token[0].contains("without TLS: the token can be read"), "{with_token:?}");
    let mut local = tollgate(&["serve", "--http", ":0", "--resp", ":0", "--grpc", ":0", "--admin", ":0"]);
    local.env_remove("NOTIFY_SOCKET");
    let said = Running::lines_until(local, "rule");
    assert!(!said.iter().any(|line| line.contains("open to other machines")), "{said:?}");
}

#[test]
fn public_metrics_omit_unpublished_rules_and_can_be_off() {
    let directory = Directory::new("public-metrics");
    let policy = directory.write(
        "policy.yaml",
        "version: 1\nrules:\n\
         - { name: api, key: client_ip, when: { path: /api/* }, limit: 60/min }\n\
         - { name: trap, key: client_ip, when: { path: /secret/* }, limit: 1/min, publish: false }\n",
    );
    let serve = |more: &[&str]| {
        let mut arguments = vec!["--grpc", "off", "--resp", "off"];
        arguments.extend(more);
        arguments.push(&policy);
        Running::serve_with(&arguments)
    };
    let tollgate = serve(&[]);
    for path in ["/api/x", "/secret/x", "/secret/x"] {
        let body = format!(r#"{{"ip":"203.0.113.9","path":"{path}"}}"#);
        assert_eq!(send(tollgate.http, "POST", "/v1/check", "host: x\r\n", &body).status, 200);
    }
    let public = send(tollgate.http, "GET", "/metrics", "host: x\r\n", "");
    assert!(public.body.contains(r#"rule="api""#) && public.body.contains(r#"endpoint="/api/*""#), "{}", public.body);
    assert!(!public.body.contains("trap") && !public.body.contains("/secret"), "{}", public.body);
    let admin = send(tollgate.admin, "GET", "/metrics", "host: x\r\n", "");
    assert!(admin.body.contains(r#"rule="trap""#) && admin.body.contains(r#"endpoint="/secret/*""#), "{}", admin.body);
    let without = serve(&["--http-metrics", "off"]);
    assert_eq!(send(without.http, "GET", "/metrics", "host: x\r\n", "").status, 404);
    assert_eq!(send(without.admin, "GET", "/metrics", "host: x\r\n", "").status, 200);
}
