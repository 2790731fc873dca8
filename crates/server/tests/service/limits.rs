use serde_json::json;

use crate::client::request;
use crate::test_service::TestService;

#[test]
fn published_limits_omit_overrides_and_unpublished_rules() {
    let service = TestService::with_policy(
        "version: 1
identity:
  user: { header: X-User, trusted: true }
  tier: { header: X-Tier, default: free, trusted: true }
deny: { client_ip: 192.0.2.0/24 }
rules:
  - { name: per-user, key: user, when: { path: /api/* }, tiers: { free: 60/min, big: unlimited }, overrides: { vip: 600/min } }
  - { name: hidden, key: user, limit: 7/min, publish: false }
",
    );
    let response = request(service.http, "GET", "/v1/limits", "");
    assert_eq!((response.status, response.field("content-type")), (200, Some("application/json")));
    let limits = response.json();
    let expected = json!([{
        "name": "per-user",
        "denies": false,
        "counts": "each user",
        "applies_to": "requests to everything below `/api/`",
        "methods": [], "hosts": [], "paths": ["/api/*"],
        "grants": [
            {
                "tier": "free", "default": true, "unlimited": false,
                "limits": [{
                    "limit": 60, "burst": 60, "window_ms": 60_000, "algorithm": "token-bucket",
                    "summary": "60 requests a minute, up to 60 at once",
                    "explanation": "The limit refills at a steady rate, up to the number of requests at once.",
                }],
            },
            { "tier": "big", "default": false, "unlimited": true, "limits": [] },
        ],
        "cost": null,
        "beyond": ["Requests above the limit are refused with status 429."],
    }]);
    assert_eq!(limits["rules"], expected);
    assert_eq!(limits["fields"].as_array().unwrap().last().unwrap()["name"], "Retry-After");
    for secret in ["vip", "hidden", "192.0.2", "X-User"] {
        assert!(!response.body.contains(secret), "{secret}");
    }
}
