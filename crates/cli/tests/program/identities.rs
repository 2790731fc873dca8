//! Different spellings of one identity are counted as the same client.

use crate::client::{Connection, Response};
use crate::reload::Directory;
use crate::running::{Running, output, tollgate};

const SECRET: &str = "a secret that only the issuer of tokens knows";
/// Token of `{"sub":"ann"}`, signed with the secret.
const ANN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4ifQ.X8nXPmr1T3q_2rDcunnBj2lBgmd8XnaJDsZAreGwjk0";
/// Token of `{"sub":"ann","exp":1}`, signed with the secret.
const EXPIRED: &str =
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4iLCJleHAiOjF9.q-u3R3WvbrunSWWWLQcIzPhDxn6jc-Rgl5DZZP-Mz2Y";
/// Token of `{"sub":"ann"}`, signed with another secret.
const FORGED: &str =
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4ifQ.XlL8Rul-ECO5HYhU_08INlm1BBaJwkMRYQcw1ZM_dYs";

struct Service {
    running: Running,
    _directory: Directory,
}

impl Service {
    fn under(name: &str, policy: &str) -> Service {
        let directory = Directory::new(name);
        let file = directory.write("policy.yaml", policy);
        let running = Running::serve_in(&[("JWT_SECRET", SECRET)], &["--grpc", "off", "--resp", "off", &file]);
        Service { running, _directory: directory }
    }

    /// The response of forward-auth for a request with these header lines.
    fn forward_auth(&self, target: &str, lines: &[&str]) -> Response {
        let mut connection = Connection::open(self.running.http);
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let gateway = format!("x-forwarded-uri: {target}\r\nx-forwarded-method: GET\r\n");
        connection.send(&format!("GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\n{gateway}{lines}\r\n"));
        connection.response()
    }

    /// The number of requests that pass.
    fn passing<'l>(&self, requests: impl IntoIterator<Item = (&'l str, Vec<String>)>) -> usize {
        let passes = |(target, lines): (&str, Vec<String>)| {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            self.forward_auth(target, &lines).status == 200
        };
        requests.into_iter().filter(|request| passes(request.clone())).count()
    }
}

fn policy(identity: &str) -> String {
    format!(
        "version: 1
identity:
  client_ip: {{ trusted_proxies: [127.0.0.1] }}
  id: {{ {identity} }}
jwt: {{ algorithm: HS256, key_env: JWT_SECRET }}
rules:
  - {{ name: per-id, key: id, limit: 3/h }}
"
    )
}

#[test]
fn repeated_api_key_headers_create_no_new_keys() {
    let service = Service::under("repeated-lines", &policy("header: X-API-Key"));
    let requests = (0..8).map(|at| ("/", vec!["X-API-Key: k1".to_owned(), format!("x-api-key: r{at}")]));
    assert_eq!(service.passing(requests), 3);
}

#[test]
fn empty_api_key_header_before_another_creates_no_new_keys() {
    let service = Service::under("empty-lines", &policy("header: X-API-Key"));
    let requests = (0..8).map(|at| ("/", vec!["X-API-Key:".to_owned(), format!("X-API-Key: r{at}")]));
    assert_eq!(service.passing(requests), 3);
}

#[test]
fn spellings_of_a_token_share_one_counter() {
    let service = Service::under("token-forms", &policy("jwt: sub"));
    let requests = [
        vec![format!("Authorization: Bearer {ANN}")],
        vec![format!("authorization: bEARER \t {ANN}")],
        vec![format!("Authorization: Bearer {ANN}"), "Authorization: Bearer r7".to_owned()],
        vec![format!("Authorization: Bearer\t{ANN}")],
        vec![format!("Authorization: Bearer {ANN}, Bearer r7")],
        vec![format!("Authorization: Bearer {ANN}"), "Authorization: Basic cjc6".to_owned()],
    ];
    assert_eq!(service.passing(requests.map(|lines| ("/", lines))), 3);
}

#[test]
fn unusable_tokens_are_counted_under_the_address() {
    let service = Service::under("unusable-tokens", &policy("jwt: sub"));
    let long = "x".repeat(17 << 10);
    let requests = [EXPIRED, FORGED, "garbage", &long, "..", FORGED, EXPIRED, &ANN[..60]];
    let requests = requests.map(|token| ("/", vec![format!("Authorization: Bearer {token}")]));
    assert_eq!(service.passing(requests), 3);
    // The subject of a token that can be used is another key.
    assert_eq!(service.forward_auth("/", &[&format!("Authorization: Bearer {ANN}")]).status, 200);
    // So is another address.
    let other = ["X-Forwarded-For: 203.0.113.9", "Authorization: Bearer garbage"];
    assert_eq!(service.forward_auth("/", &other).status, 200);
}

#[test]
fn unusable_tokens_are_refused_with_on_invalid_refuse() {
    let service = Service::under("refused-tokens", &policy("jwt: sub, on_invalid: refuse"));
    let refused = service.forward_auth("/", &[&format!("Authorization: Bearer {EXPIRED}")]);
    assert_eq!((refused.status, refused.field("content-type")), (401, Some("application/problem+json")));
    assert_eq!(refused.field("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    assert_eq!((&refused.json()["status"], &refused.json()["title"]), (&401.into(), &"Unauthorized".into()));
    assert_eq!(service.forward_auth("/", &[&format!("Authorization: Bearer {ANN}")]).status, 200);
    assert_eq!(service.forward_auth("/", &[]).status, 200);
    let body = format!(r#"{{"headers":{{"authorization":["Bearer {EXPIRED}","Bearer {ANN}"]}}}}"#);
    let checked = Connection::open(service.running.http).request("POST", "/v1/check", &body).json();
    assert_eq!((&checked["action"], &checked["rule"]), (&"deny".into(), &serde_json::Value::Null));
}

#[test]
fn explain_prints_why_a_token_is_unusable() {
    let directory = Directory::new("explained-tokens");
    let file = directory.write("policy.yaml", &policy("jwt: sub"));
    let header = format!("Authorization: Bearer {EXPIRED}");
    let explain = ["explain", &file, "--ip", "203.0.113.9", "--header", &header];
    let explained = tollgate(&explain).env("JWT_SECRET", SECRET).output().unwrap();
    let stdout = String::from_utf8_lossy(&explained.stdout);
    assert!(stdout.contains("unusable token: expired; counted under the client's address"), "{stdout}");
    assert!(stdout.contains(r"\unusable:203.0.113.9"), "{stdout}");
}

#[test]
fn encoded_cookies_and_repeated_parameters_create_no_new_keys() {
    let service = Service::under("cookies", &policy("cookie: sid"));
    let forms = ["a1b2", "%61%31b2", "a%31b2", "\"a1b2\"", "%611b2; sid=r7", "a1%622", "a1b%32"];
    assert_eq!(service.passing(forms.map(|value| ("/", vec![format!("Cookie: sid={value}")]))), 3);
    let service = Service::under("parameters", &policy("query: key"));
    let forms = ["/?key=k1&key=r7", "/?key=%6b1", "/?k%65y=k1&key=r8", "/?key=k1", "/?key=k%31"];
    assert_eq!(service.passing(forms.map(|target| (target, Vec::new()))), 3);
    let forms = ["/?key=&key=r1", "/?key&key=r2", "/?key=&key=r3", "/?key=&key=r4"];
    assert_eq!(service.passing(forms.map(|target| (target, Vec::new()))), 3);
}

/// An entry for an address does not match an API key with the same text.
#[test]
fn api_key_does_not_match_a_list_entry_for_an_address() {
    let of = |entry: &str| {
        format!(
            "version: 1
identity:
  client_ip: {{ trusted_proxies: [127.0.0.1] }}
  api_key: {{ header: X-API-Key }}
  client: {{ first: [api_key, client_ip] }}
allow: {{ client: {entry} }}
rules:
  - {{ name: per-client, key: client, limit: 3/h }}
"
        )
    };
    let service = Service::under("first-lists", &of("client_ip=203.0.113.99"));
    let forged = (0..8).map(|_| ("/", vec!["X-API-Key: 203.0.113.99".to_owned()]));
    assert_eq!(service.passing(forged), 3);
    let listed = (0..8).map(|_| ("/", vec!["X-Forwarded-For: 203.0.113.99".to_owned()]));
    assert_eq!(service.passing(listed), 8);
    // A value without the name of the identity is ambiguous.
    let directory = Directory::new("first-values");
    let refused = output(&["validate", &directory.write("policy.yaml", &of("203.0.113.99"))]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("`client_ip=203.0.113.99`"), "{stderr}");
}

#[test]
fn ipv6_address_with_an_embedded_ipv4_address_is_counted_under_it() {
    let policy = "version: 1
identity:
  client_ip: { trusted_proxies: [127.0.0.1] }
allow: { client_ip: 10.0.0.0/8 }
deny: { client_ip: 192.0.2.0/24 }
rules:
  - { name: per-ip, key: client_ip, limit: 3/h }
";
    let service = Service::under("carried", policy);
    let from = |address: &str| service.forward_auth("/", &[&format!("X-Forwarded-For: {address}")]).status;
    let forms =
        ["203.0.113.9", "64:ff9b::203.0.113.9", "2002:cb00:7109::1", "2002:cb00:7109:7::1", "2002:cb00:7109:8:9::2"];
    assert_eq!(forms.map(from), [200, 200, 200, 429, 429]);
    // Allow lists do not match embedded addresses; deny lists do.
    assert_eq!([(); 5].map(|()| from("2002:a00:1::1")), [200, 200, 200, 429, 429]);
    assert_eq!([(); 5].map(|()| from("10.0.0.1")), [200; 5]);
    assert_eq!([from("2002:c000:201::1"), from("64:ff9b::192.0.2.1"), from("192.0.2.1")], [403; 3]);
}

/// A gateway that the policy does not trust is the client itself, which the log states.
#[test]
fn fields_of_an_untrusted_gateway_are_ignored_and_reported() {
    let mut service = Service::under(
        "untrusted-gateway",
        "version: 1\nrules: [{ name: login, when: { path: /login }, key: client_ip, limit: 1/h }]\n",
    );
    for _ in 0..3 {
        assert_eq!(service.forward_auth("/login", &[]).status, 200);
    }
    let line = service.running.line();
    let expected = "the method, path and client address that 127.0.0.1 states are ignored, because it is not one of the \
                    policy's trusted_proxies";
    assert!(line.contains("warning: forward-auth: ") && line.contains(expected), "{line}");
}
