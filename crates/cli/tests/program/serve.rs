use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::client::{Connection, request};
use crate::outputs::policy;
use crate::running::{Running, output};

#[test]
fn listeners_answer_at_the_logged_addresses() {
    let tollgate = Running::serve();
    assert_eq!(request(tollgate.http, "GET", "/healthz", "").body, "ok\n");
    let answer = request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9"}"#);
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("application/json")));
    assert_eq!(answer.json()["remaining"], 59);
    assert!(request(tollgate.admin, "GET", "/metrics", "").body.contains("\ntollgate_decisions_total{"));
}

#[test]
fn request_that_a_rule_denies_is_answered_403_and_logged_with_the_rule() {
    let file = policy("denied.yaml");
    let mut tollgate = Running::serve_with(&[&file, "--log-identities", "plain", "--grpc", "off", "--resp", "off"]);
    let answer = request(tollgate.http, "POST", "/v1/check", r#"{"ip":"203.0.113.9","path":"/admin/users"}"#).json();
    assert_eq!((&answer["action"], &answer["rule"]), (&"deny".into(), &"admin-only-inside".into()));
    let line = tollgate.any_line_of("violation");
    assert!(line.contains("rule=admin-only-inside action=deny front_end=http route=/admin/*"), "{line}");
    // The caller is the client, as it is no trusted proxy, and 127.0.0.1 is not in 10.0.0.0/8.
    let mut connection = Connection::open(tollgate.http);
    connection.send("GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\n\r\n");
    assert_eq!(connection.response().status, 200);
    let metrics = request(tollgate.admin, "GET", "/metrics", "").body;
    let counted = r#"tollgate_decisions_total{rule="admin-only-inside",outcome="deny",frontend="http"} 1"#;
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
}

#[test]
fn resp_listener_answers_and_closes_on_sigterm() {
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", ":0"]);
    let mut connection = TcpStream::connect(tollgate.resp.unwrap()).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    connection.write_all(b"CL.THROTTLE k 15 30 60\r\n").unwrap();
    let expected = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";
    let mut answer = vec![0; expected.len()];
    connection.read_exact(&mut answer).unwrap();
    assert_eq!(answer, expected);
    tollgate.signal("TERM");
    assert_eq!(tollgate.exit_code(), Some(0));
    assert_eq!(connection.read(&mut answer).unwrap(), 0);
}

/// A stopped process (SIGSTOP) accepts nothing, and connections wait in the backlog of its sockets. A connection beyond
/// the backlog would be retried after a second.
#[test]
fn backlog_of_every_listener_holds_hundreds_of_connections() {
    let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let count = allowed.trim().parse::<usize>().unwrap().min(600);
    let tollgate = Running::serve_with(&["--grpc", ":0", "--resp", ":0"]);
    tollgate.signal("STOP");
    for listener in [Some(tollgate.http), tollgate.grpc, tollgate.resp, Some(tollgate.admin)] {
        let address = listener.unwrap();
        let connected: Vec<TcpStream> =
            (0..count).map_while(|_| TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok()).collect();
        assert_eq!(connected.len(), count, "{address}");
    }
    tollgate.signal("CONT");
    assert_eq!(request(tollgate.http, "GET", "/healthz", "").body, "ok\n");
}

#[test]
fn sigterm_answers_requests_in_flight_and_exits_with_0() {
    let mut tollgate = Running::serve();
    let body = r#"{"ip":"203.0.113.9"}"#;
    let mut connection = Connection::open(tollgate.http);
    connection.begin_check(body.len());
    tollgate.signal("TERM");
    assert_eq!(tollgate.line(), "tollgate: stopping: answering requests in flight");
    while TcpStream::connect(tollgate.http).is_ok() {
        std::thread::yield_now();
    }
    connection.send(body);
    assert_eq!(connection.response().json()["allowed"], true);
    assert_eq!(tollgate.line(), "tollgate: stopped");
    assert_eq!(tollgate.exit_code(), Some(0));
}

#[test]
fn sigint_exits_with_0() {
    let mut tollgate = Running::serve();
    tollgate.signal("INT");
    assert_eq!(tollgate.exit_code(), Some(0));
}

#[test]
fn second_signal_cuts_off_requests_and_exits_with_3() {
    let mut tollgate = Running::serve();
    let mut connection = Connection::open(tollgate.http);
    connection.begin_check(2);
    tollgate.signal("TERM");
    assert_eq!(tollgate.line(), "tollgate: stopping: answering requests in flight");
    tollgate.signal("TERM");
    assert_eq!(tollgate.line(), "tollgate: warning: stopped by a second signal: requests in flight were cut off");
    // A request has no response.
    assert_eq!(tollgate.exit_code(), Some(3));
}

#[test]
fn connections_beyond_the_descriptors_are_closed_and_admin_keeps_its_own() {
    let tollgate = Running::serve_with_files(64);
    let metric = |name: &str| {
        let metrics = request(tollgate.admin, "GET", "/metrics", "").body;
        metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap()
    };
    let refused = "tollgate_connections_refused_total{listener=\"http\",reason=\"descriptors\"}";
    assert_eq!(metric(refused), 0);
    let held: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(tollgate.http).unwrap()).collect();
    let begun = Instant::now();
    while metric(refused) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no connection is refused");
    }
    assert_eq!(metric("tollgate_accept_errors_total{listener=\"http\"}"), 0);
    drop(held);
    while metric("tollgate_connections{listener=\"http\"}") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "closed connections keep their descriptors");
    }
    assert_eq!(request(tollgate.http, "GET", "/healthz", "").status, 200);
}

#[test]
fn too_few_descriptors_for_the_connection_limits_log_a_warning() {
    let mut tollgate = Running::serve_with_files(1_024);
    assert_eq!(
        tollgate.any_line().split_once("the limit").unwrap().1,
        " on open files is 1024: 960 connections can be open at once, and --max-connections allows 10000 on \
         1 listener; raise the limit (ulimit -n, LimitNOFILE), or lower --max-connections"
    );
}

#[test]
fn soft_limit_on_open_files_is_raised_to_the_hard_limit() {
    let tollgate = Running::serve_with_soft_limit_of_files(256);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", tollgate.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let [soft, hard] = [3, 4].map(|at| line.split_whitespace().nth(at).unwrap().to_owned());
    assert!(soft == hard && soft != "256", "{line}");
}

#[test]
fn unreadable_certificate_fails_at_startup() {
    let directory = std::env::temp_dir().join(format!("tollgate-serve-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    std::fs::write(file("empty.pem"), "").unwrap();
    let failed = output(&["serve", "--tls-cert", &file("empty.pem"), "--tls-key", &file("absent.pem")]);
    assert_eq!(failed.status.code(), Some(3));
    let said = String::from_utf8(failed.stderr).unwrap();
    let expected = format!("error: cannot set up TLS: {}: the file cannot be read: ", file("absent.pem"));
    assert!(said.starts_with(&expected), "{said}");
    std::fs::write(file("bad.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n!!\n-----END CERTIFICATE-----\n").unwrap();
    std::fs::write(file("key.pem"), "-----BEGIN PRIVATE KEY-----\nAAAA\n").unwrap();
    let certificate = ["serve", "--tls-cert", &file("bad.pem"), "--tls-key", &file("key.pem")];
    let said = String::from_utf8(output(&certificate).stderr).unwrap();
    let expected = format!(
        "error: cannot set up TLS: {}: the file is not valid PEM: the line `-----END PRIVATE KEY-----` is missing\n\
         hint: write the whole private key to the file, ",
        file("key.pem")
    );
    assert!(said.starts_with(&expected), "{said}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn policy_file_applies_to_checks_and_published_limits() {
    let shop = policy("shop.yaml");
    let tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", &shop]);
    let check = |body: &str| request(tollgate.http, "POST", "/v1/check", body).json();
    let answer = check(r#"{"ip":"203.0.113.9","headers":{"X-User-ID":"42","X-Tier":"pro"}}"#);
    let limits: Vec<(&str, u64)> = answer["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| (rule["rule"].as_str().unwrap(), rule["limit"].as_u64().unwrap()))
        .collect();
    assert_eq!(limits, [("per-client", 40), ("per-client", 300), ("per-user", 1200), ("next-limit", 1000)]);
    let login = r#"{"ip":"203.0.113.10","method":"POST","path":"/auth/login"}"#;
    let actions: Vec<String> = (0..8).map(|_| check(login)["action"].as_str().unwrap().to_owned()).collect();
    assert_eq!(actions, ["allow", "allow", "allow", "allow", "allow", "warn", "warn", "reject"]);
    assert_eq!(check(r#"{"ip":"192.0.2.1"}"#)["action"], "deny");
    let limits = request(tollgate.http, "GET", "/v1/limits", "");
    let printed = output(&["limits", &shop, "--format", "json"]).stdout;
    assert_eq!(limits.json(), serde_json::from_slice::<serde_json::Value>(&printed).unwrap());
}

#[test]
fn other_spellings_of_a_path_and_head_do_not_avoid_a_rule() {
    let tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", &policy("shop.yaml")]);
    let rules = |method: &str, path: &str| {
        let body = serde_json::json!({ "ip": "203.0.113.9", "method": method, "path": path }).to_string();
        let answer = request(tollgate.http, "POST", "/v1/check", &body).json();
        let rules = answer["rules"].as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap().to_owned());
        rules.collect::<Vec<String>>()
    };
    for path in
        ["/products/7", "/products/7%2f..%2f..%2fx0", "/x0%2f..%2fproducts/7", "/products;v=1/7", "/products%5c7"]
    {
        let applied = rules("GET", path);
        assert_eq!(applied.iter().filter(|rule| *rule == "scrapers").count(), 1, "{path}: {applied:?}");
    }
    assert!(!rules("GET", "/x0").contains(&"scrapers".to_owned()));
    assert!(rules("HEAD", "/search").contains(&"search".to_owned()));
    assert!(!rules("POST", "/search").contains(&"search".to_owned()));
}

#[test]
fn warnings_of_the_policy_are_logged_as_warnings_at_startup() {
    let mut tollgate = Running::serve_with(&["--grpc", "off", "--resp", "off", &policy("warned.yaml")]);
    let file = policy("warned.yaml");
    let warning = tollgate.line();
    assert!(warning.starts_with(&format!("tollgate: warning: {file}:3:1: ")), "{warning}");
    assert!(warning.ends_with(" [no-rules]"), "{warning}");
}

#[test]
fn address_in_use_fails_with_a_hint() {
    let tollgate = Running::serve();
    let taken = tollgate.http.to_string();
    for (flag, other) in [("--http", "--admin"), ("--admin", "--http")] {
        let failed = output(&["serve", flag, &taken, other, "off", "--grpc", "off", "--resp", "off"]);
        assert_eq!(failed.status.code(), Some(3));
        let said = String::from_utf8(failed.stderr).unwrap();
        let name = flag.trim_start_matches('-');
        assert!(said.starts_with(&format!("error: cannot listen on {taken} for {name}: ")), "{said}");
        assert!(
            said.contains(&format!(
                "\nhint: is another tollgate running? Or choose another address with {flag} ADDRESS,"
            )),
            "{said}"
        );
    }
}
