//! What gateways are told while the shared store is away.

use tollgate_testbed::RedisServer;

use crate::client::{Connection, Response, request};
use crate::running::Running;

/// How each gateway asks about the same request, as its configuration in `deploy` has it ask.
const NGINX: Gateway = Gateway {
    question: "GET /v1/forward-auth?deny_status=403 HTTP/1.1\r\nhost: shop.example\r\n\
               x-original-method: GET\r\nx-original-uri: /a\r\nx-real-ip: 203.0.113.9\r\n\r\n",
    replaces_the_status: true,
};
const TRAEFIK: Gateway = Gateway {
    question: "GET /v1/forward-auth HTTP/1.1\r\nhost: tollgate\r\nx-forwarded-method: GET\r\n\
               x-forwarded-proto: http\r\nx-forwarded-host: shop.example\r\nx-forwarded-port: 80\r\n\
               x-forwarded-uri: /a\r\nx-forwarded-for: 203.0.113.9\r\n\r\n",
    replaces_the_status: false,
};
const CADDY: Gateway = Gateway {
    question: "GET /v1/forward-auth? HTTP/1.1\r\nhost: tollgate\r\nx-forwarded-method: GET\r\n\
               x-forwarded-uri: /a\r\nx-forwarded-host: shop.example\r\nx-forwarded-for: 203.0.113.9\r\n\r\n",
    replaces_the_status: false,
};

struct Gateway {
    question: &'static str,
    /// Whether it asks for a 403 instead of any other refusal.
    replaces_the_status: bool,
}

impl Gateway {
    fn ask(&self, service: &Running) -> Response {
        let mut connection = Connection::open(service.http);
        connection.send(self.question);
        connection.response()
    }

    /// A refusal with what belongs to it, wherever this gateway looks for it.
    fn is_told_of_trouble(&self, service: &Running, what: &str) {
        let answer = self.ask(service);
        let (status, meant) = if self.replaces_the_status { (403, Some("503")) } else { (503, None) };
        assert_eq!((answer.status, answer.field("tollgate-status")), (status, meant), "{answer:?}");
        let problem = answer.json();
        assert_eq!(problem["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
        assert_eq!((&problem["status"], &problem["rule"]), (&503.into(), &"per-ip".into()), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with(what), "{detail}");
        assert_eq!(problem["violated-policies"], serde_json::json!(["per-ip"]));
        assert_eq!(answer.field("content-type"), Some("application/problem+json"));
        assert_eq!(answer.field("cache-control"), Some("no-store"));
        assert_eq!(answer.field("tollgate-problem"), meant.map(|_| answer.body.as_str()));
    }
}

/// What `/api/top` says: how many were refused, and how many of them the first of the offenders had.
fn refusals(service: &Running) -> (u64, u64) {
    let top = request(service.admin, "GET", "/api/top?rule=per-ip", "").json();
    let rule = &top["rules"][0];
    (rule["refusals"].as_u64().unwrap(), rule["offenders"][0]["count"].as_u64().unwrap_or(0))
}

/// A service whose store was there once, and is gone.
fn without_its_store(on_failure: &str) -> Running {
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
    let service = Running::under(&policy);
    redis.kill().unwrap();
    service
}

#[test]
fn a_rule_that_is_closed_refuses_every_gateway_with_a_503() {
    let service = without_its_store("on_failure: closed");
    for gateway in [NGINX, TRAEFIK, CADDY] {
        gateway.is_told_of_trouble(&service, "the request could not be counted; try again in 1 second");
    }
    // A failure to count is no refusal by the rule.
    assert_eq!(refusals(&service), (0, 0));
}

#[test]
fn a_rule_that_is_open_lets_every_gateway_pass() {
    let service = without_its_store("on_failure: open");
    for gateway in [NGINX, TRAEFIK, CADDY] {
        let answer = gateway.ask(&service);
        assert_eq!((answer.status, answer.field("tollgate-status")), (200, None), "{answer:?}");
    }
}

#[test]
fn beyond_its_share_an_instance_alone_refuses_every_gateway_with_a_503() {
    // Half of two is one, and all three speak of the same client.
    let service = without_its_store("on_failure: local, fallback_share: 1/2");
    assert_eq!(TRAEFIK.ask(&service).status, 200);
    for gateway in [NGINX, TRAEFIK, CADDY] {
        let what = "capacity is reduced for a time, and this instance's share of the limit is reached; try again in ";
        gateway.is_told_of_trouble(&service, what);
    }
    assert_eq!(refusals(&service), (3, 3));
}
