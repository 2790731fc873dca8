//! Forward auth while the shared store is unreachable.

use tollgate_testbed::RedisServer;

use crate::client::{Connection, Response, request};
use crate::test_service::TestService;

/// The check of each gateway for the same request, as configured in `deploy`.
const NGINX: Gateway = Gateway {
    request: "GET /v1/forward-auth?deny_status=403 HTTP/1.1\r\nhost: shop.example\r\n\
               x-original-method: GET\r\nx-original-uri: /a\r\nx-real-ip: 203.0.113.9\r\n\r\n",
    replaces_status: true,
};
const TRAEFIK: Gateway = Gateway {
    request: "GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\nx-forwarded-method: GET\r\n\
               x-forwarded-proto: http\r\nx-forwarded-host: shop.example\r\nx-forwarded-port: 80\r\n\
               x-forwarded-uri: /a\r\nx-forwarded-for: 203.0.113.9\r\n\r\n",
    replaces_status: false,
};
const CADDY: Gateway = Gateway {
    request: "GET /v1/forward-auth? HTTP/1.1\r\nhost: tollgate\r\nx-forwarded-method: GET\r\n\
               x-forwarded-uri: /a\r\nx-forwarded-host: shop.example\r\nx-forwarded-for: 203.0.113.9\r\n\r\n",
    replaces_status: false,
};

struct Gateway {
    request: &'static str,
    /// Whether the gateway requests status 403 for every refusal.
    replaces_status: bool,
}

impl Gateway {
    fn send(&self, service: &TestService) -> Response {
        let mut connection = Connection::open(service.http);
        connection.send(self.request);
        connection.response()
    }

    /// Asserts that the gateway gets a refusal with status 503, replaced or not, and its problem.
    fn assert_unavailable(&self, service: &TestService, detail_start: &str) {
        let response = self.send(service);
        let (status, original) = if self.replaces_status { (403, Some("503")) } else { (503, None) };
        assert_eq!((response.status, response.field("tollgate-status")), (status, original), "{response:?}");
        let problem = response.json();
        assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
        assert_eq!((&problem["status"], &problem["rule"]), (&503.into(), &"per-ip".into()), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with(detail_start), "{detail}");
        assert_eq!(problem["violated-policies"], serde_json::json!(["per-ip"]));
        assert_eq!(response.field("content-type"), Some("application/problem+json"));
        assert_eq!(response.field("cache-control"), Some("no-store"));
        assert_eq!(response.field("tollgate-problem"), original.map(|_| response.body.as_str()));
    }
}

/// Returns the number of refusals in `/api/top`, and that of the first offender.
fn refusals(service: &TestService) -> (u64, u64) {
    let top = request(service.admin, "GET", "/api/top?rule=per-ip", "").json();
    let rule = &top["rules"][0];
    (rule["refusals"].as_u64().unwrap(), rule["offenders"][0]["count"].as_u64().unwrap_or(0))
}

/// Returns how many requests the rule allowed and refused, by `/api/status`, and its headroom.
fn counted(service: &TestService) -> (u64, u64, Option<u64>) {
    let status = request(service.admin, "GET", "/api/status", "").json();
    let rule = &status["rules"][0];
    let number = |name: &str| rule[name].as_u64();
    (number("allowed").unwrap(), number("refused").unwrap(), number("headroom_percent"))
}

/// Starts a service, and then stops its store.
fn without_store(on_failure: &str) -> TestService {
    let mut redis = RedisServer::start(&[]).unwrap();
    let policy = format!(
        "version: 1
store: {{ redis: {{ nodes: ['{}'], deadline: 50ms, {on_failure} }} }}
identity:
  client_ip: {{ trusted_proxies: [127.0.0.1] }}
rules: [ {{ name: per-ip, key: client_ip, limit: 2/h }} ]
",
        redis.address()
    );
    let service = TestService::with_policy(&policy);
    redis.kill().unwrap();
    service
}

#[test]
fn on_failure_closed_refuses_with_503() {
    let service = without_store("on_failure: closed");
    for gateway in [NGINX, TRAEFIK, CADDY] {
        gateway.assert_unavailable(&service, "the request could not be counted; try again in 1 second");
    }
    // A failure to count is not a refusal by the rule.
    assert_eq!(refusals(&service), (0, 0));
    assert_eq!(counted(&service), (0, 0, None));
}

#[test]
fn on_failure_open_allows() {
    let service = without_store("on_failure: open");
    for gateway in [NGINX, TRAEFIK, CADDY] {
        let response = gateway.send(&service);
        assert_eq!((response.status, response.field("tollgate-status")), (200, None), "{response:?}");
    }
    // The rule has counted nothing.
    assert_eq!(counted(&service), (0, 0, None));
}

#[test]
fn on_failure_local_refuses_with_503_beyond_the_share() {
    // Half of 2 is 1, and all three gateways check the same client.
    let service = without_store("on_failure: local, fallback_share: 1/2");
    assert_eq!(TRAEFIK.send(&service).status, 200);
    for gateway in [NGINX, TRAEFIK, CADDY] {
        let detail_start =
            "capacity is reduced for a time, and this instance's share of the limit is reached; try again in ";
        gateway.assert_unavailable(&service, detail_start);
    }
    assert_eq!(refusals(&service), (3, 3));
    assert_eq!(counted(&service), (1, 3, None));
}
