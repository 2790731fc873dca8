//! The warning `limits-can-be-avoided`: which policies cause it, and which do not.

#![cfg(feature = "yaml")]
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tollgate_policy::parse;

const IDENTITIES: &str = "identity:
  user: { header: X-User, trusted: true }
  org: { cookie: org, trusted: true }
  key: { header: X-API-Key }
  app: { given: true }
  tenant: { path_segment: 2, trusted: true }
  known: { first: [user, client_ip] }
  any_key: { first: [key, client_ip] }
  tier: { header: X-Tier, default: free, trusted: true }
";

/// Returns the paths of the warnings, such as `rules[0].key[0]`.
fn warned(rules: &[&str]) -> Vec<String> {
    let listed: String =
        rules.iter().enumerate().map(|(at, rule)| format!("  - {{ name: r{at}, {rule} }}\n")).collect();
    let text = format!("version: 1\n{IDENTITIES}rules:\n{listed}");
    let loaded = parse(&text, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
    let own = loaded.policy.warnings().iter().filter(|warning| warning.code == "limits-can-be-avoided");
    own.map(|warning| warning.path.to_string()).collect()
}

const PER_USER: &str = "key: user, limit: 5/min";
const PER_IP: &str = "key: client_ip, limit: 5/min";

#[test]
fn rule_that_can_be_avoided_without_another_limit_causes_a_warning() {
    for (rules, places) in [
        (&[PER_USER][..], &["rules"][..]),
        (&[PER_USER, "when: { path: /login }, key: client_ip, limit: 5/min"], &["rules[0].key[0]"]),
        (&[PER_USER, "when: { method: POST }, key: client_ip, limit: 5/min"], &["rules[0].key[0]"]),
        (&[PER_USER, "when: { host: a.example }, key: client_ip, limit: 5/min"], &["rules[0].key[0]"]),
        (&[PER_USER, "when: { network: internal }, key: client_ip, limit: 5/min"], &["rules[0].key[0]"]),
        (&[PER_USER, "when: { headers: { X-App: true } }, key: client_ip, limit: 5/min"], &["rules[0].key[0]"]),
        (&[PER_USER, "when: { identity: { tier: free } }, key: client_ip, limit: 5/min"], &["rules[0].key[0]"]),
        (
            &[
                "when: { path: [/a/*, /b/*] }, key: user, limit: 5/min",
                "when: { path: /a/* }, key: client_ip, limit: 5/min",
            ],
            &["rules[0].key[0]"],
        ),
        (
            &[
                "when: { path: /a, method: [GET, POST] }, key: user, limit: 5/min",
                "when: { path: /a, method: GET }, key: client_ip, limit: 5/min",
            ],
            &["rules[0].key[0]"],
        ),
        (&["key: [client_ip, user], limit: 5/min", "when: { path: /a }, limit: 5/min"], &["rules[0].key[1]"]),
        // Each identity of a key can be left out by itself.
        (
            &["key: [user, org], limit: 5/min", "when: { identity: { user: false } }, key: client_ip, limit: 5/min"],
            &["rules[0].key[1]"],
        ),
        // A shadow refuses nothing, and an unlimited rule limits nothing.
        (&[PER_USER, "key: client_ip, limit: 5/min, shadow: true"], &["rules"]),
        (&[PER_USER, "key: client_ip, unlimited: true"], &["rules"]),
        (&[PER_USER, "key: client_ip, tiers: { free: unlimited, pro: 5/min }"], &["rules[0].key[0]"]),
        // A key that clients choose limits nothing: another value is another counter.
        (&[PER_USER, "key: any_key, limit: 5/min"], &["rules[0].key[0]"]),
        (&[PER_USER, "key: key, limit: 5/min"], &["rules"]),
        (&["key: app, limit: 5/min", "when: { path: /login }, key: client_ip, limit: 5/min"], &["rules[0].key[0]"]),
        // Every rule counts by `user`, so requests without it have no limit on any path.
        (&["when: { path: /a }, key: user, limit: 5/min", "when: { path: /b }, key: user, limit: 5/min"], &["rules"]),
        // A rule that denies some requests does not limit the others.
        (&[PER_USER, PER_LOGIN, "when: { path: /a, identity: { user: false } }, deny: true"], &["rules[0].key[0]"]),
        // Clients that send the header are exempt from the limit by address.
        (
            &[PER_USER, PER_IP, "when: { headers: { X-Internal: true } }, unlimited: true, replaces: [r1]"],
            &["rules[2].replaces", "rules[0].key[0]"],
        ),
        (&[PER_IP, "key: key, limit: 1000/min, replaces: [r0]"], &["rules[1].replaces", "rules[1].key[0]"]),
    ] {
        assert_eq!(warned(rules), places, "{rules:#?}");
    }
}

#[test]
fn key_with_a_path_or_host_that_clients_invent_causes_a_warning() {
    for (rules, places) in [
        (&["key: [client_ip, path], limit: 5/min"][..], &["rules[0].key[1]"][..]),
        (&["key: path, limit: 5/min"], &["rules[0].key[0]"]),
        (&["when: { path: /a/* }, key: [client_ip, path], limit: 5/min"], &["rules[0].key[1]"]),
        (&["when: { path: '/users/{id}' }, key: [client_ip, path], limit: 5/min"], &["rules[0].key[1]"]),
        (&["key: [client_ip, host], limit: 5/min"], &["rules[0].key[1]"]),
        (&["when: { host: '*.example.com' }, key: [client_ip, host], limit: 5/min"], &["rules[0].key[1]"]),
        (&["key: [client_ip, path], limit: 5/min", PER_LOGIN], &["rules[0].key[1]"]),
        // Such a rule is no other limit for requests without the user.
        (&[PER_USER, "key: [client_ip, path], limit: 5/min", PER_LOGIN], &["rules[1].key[1]", "rules[0].key[0]"]),
    ] {
        assert_eq!(warned(rules), places, "{rules:#?}");
    }
    for rules in [
        &["key: [client_ip, path], limit: 5/min", PER_IP][..],
        &["key: [client_ip, path], limit: 5/min", "limit: 500/min"],
        &["when: { path: /a/* }, key: [client_ip, path], limit: 5/min", "when: { path: /* }, limit: 50/min"],
        &["when: { path: [/a, /b] }, key: [client_ip, path], limit: 5/min"],
        &["when: { host: a.example.com }, key: [client_ip, host], limit: 5/min"],
        &["when: { path: /a/* }, key: [client_ip, route], limit: 5/min"],
        &["key: [client_ip, method], limit: 5/min"],
        &["key: [client_ip, path], limit: 5/min, shadow: true", PER_LOGIN],
        &["when: { domain: edge }, key: path, limit: 5/min", PER_LOGIN],
    ] {
        assert_eq!(warned(rules), [""; 0], "{rules:#?}");
    }
}

const PER_LOGIN: &str = "when: { path: /login }, key: client_ip, limit: 5/min";

#[test]
fn rule_whose_requests_have_another_limit_causes_no_warning() {
    for rules in [
        &[PER_IP][..],
        &[PER_USER, PER_IP],
        &[PER_USER, "limit: 5/min"],
        &[PER_USER, "when: { path: /* }, key: client_ip, limit: 5/min"],
        &["key: known, limit: 5/min"],
        &[PER_USER, "key: known, limit: 5/min", PER_LOGIN],
        &["when: { path: /a/b }, key: user, limit: 5/min", "when: { path: /a/* }, key: client_ip, limit: 5/min"],
        &[
            "when: { path: [/a/*, /b] }, key: user, limit: 5/min",
            "when: { path: /a/* }, key: client_ip, limit: 5/min",
            "when: { path: [/b, /c] }, key: client_ip, limit: 5/min",
        ],
        &[
            "when: { method: [GET, POST] }, key: user, limit: 5/min",
            "when: { method: GET }, key: client_ip, limit: 5/min",
            "when: { method: POST }, key: client_ip, limit: 5/min",
        ],
        &["when: { host: a.example.com }, key: user, limit: 5/min", "when: { host: '*.example.com' }, limit: 5/min"],
        // Requests without the identity have a rule of their own, or are denied.
        &[PER_USER, "when: { identity: { user: false } }, key: client_ip, limit: 5/min"],
        &[PER_USER, "when: { headers: { X-User: false } }, key: client_ip, limit: 5/min"],
        &[PER_USER, "when: { identity: { user: false } }, deny: true"],
        &["when: { path: /a }, key: user, limit: 5/min", "when: { path: /a, identity: { user: false } }, deny: true"],
        // Both rules require the same header, so a request without it matches neither.
        &[
            "when: { headers: { X-App: true } }, key: user, limit: 5/min",
            "when: { headers: { X-App: true } }, key: client_ip, limit: 5/min",
        ],
        &["when: { network: internal }, key: user, limit: 5/min", "when: { network: internal }, limit: 5/min"],
        // Every path of the rule has the segment.
        &["when: { path: /t/*/orders }, key: tenant, limit: 5/min", PER_LOGIN],
        &[PER_USER, "key: client_ip, tiers: { free: 5/min, pro: unlimited }"],
        &["key: user, limit: 5/min, shadow: true", PER_LOGIN],
        // An exemption by a property that clients cannot choose is intended.
        &[PER_USER, PER_IP, "when: { network: internal }, unlimited: true, replaces: [r1]"],
        &[PER_IP, "key: user, limit: 1000/min, replaces: [r0]", "key: client_ip, limit: 9/s"],
    ] {
        assert_eq!(warned(rules), [""; 0], "{rules:#?}");
    }
}

#[test]
fn warnings_for_thousands_of_rules_are_found_quickly() {
    let mut text = format!("version: 1\n{IDENTITIES}rules:\n");
    for at in 0..4_000 {
        text += &format!("  - {{ name: u{at}, when: {{ path: [/u/{at}, /v/{at}] }}, key: user, limit: 1/s }}\n");
        text += &format!("  - {{ name: i{at}, when: {{ path: /i/{at} }}, key: client_ip, limit: 1/s }}\n");
    }
    let started = Instant::now();
    let loaded = parse(&text, "policy.yaml", None).unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "took {:?}", started.elapsed());
    assert!(loaded.warnings.iter().any(|warning| warning.code == "limits-can-be-avoided"));
}
