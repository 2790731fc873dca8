//! Clients that write one identity in many ways, against the program itself: each way is the same client.

use crate::client::{Connection, Response};
use crate::reload::Directory;
use crate::running::{Running, output};

struct Service {
    running: Running,
    _directory: Directory,
}

impl Service {
    fn under(name: &str, policy: &str) -> Service {
        let directory = Directory::new(name);
        let file = directory.write("policy.yaml", policy);
        let running = Running::serve_with(&["--grpc", "off", "--resp", "off", &file]);
        Service { running, _directory: directory }
    }

    /// What a gateway is answered about a request with these header lines.
    fn ask(&self, target: &str, lines: &[&str]) -> Response {
        let mut connection = Connection::open(self.running.http);
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let gateway = format!("x-forwarded-uri: {target}\r\nx-forwarded-method: GET\r\n");
        connection.send(&format!("GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\n{gateway}{lines}\r\n"));
        connection.response()
    }

    /// How many of the requests pass.
    fn passing<'l>(&self, requests: impl IntoIterator<Item = (&'l str, Vec<String>)>) -> usize {
        let passes = |(target, lines): (&str, Vec<String>)| {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            self.ask(target, &lines).status == 200
        };
        requests.into_iter().filter(|request| passes(request.clone())).count()
    }
}

/// A list that names an address does not mean an API key that reads like it.
#[test]
fn an_api_key_does_not_get_what_a_list_grants_to_an_address() {
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
    let meant = (0..8).map(|_| ("/", vec!["X-Forwarded-For: 203.0.113.99".to_owned()]));
    assert_eq!(service.passing(meant), 8);
    // A value alone would mean either.
    let directory = Directory::new("first-values");
    let refused = output(&["validate", &directory.write("policy.yaml", &of("203.0.113.99"))]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("`client_ip=203.0.113.99`"), "{told}");
}
