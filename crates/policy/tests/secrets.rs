//! Keys and explanations contain credentials only as hashes.

#![cfg(feature = "yaml")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use tollgate_policy::promise::promises;
use tollgate_policy::{CompiledPolicy, Request, RuleOutcome, parse};

const POLICY: &str = "
version: 1
identity:
  token: { bearer: true, trusted: true }
  session: { cookie: sid, trusted: true }
  api_key: { header: X-API-Key, secret: true, trusted: true }
  basic: { header: Authorization, trusted: true }
  plain: { header: X-Plain, trusted: true }
  caller: { first: [api_key, plain] }
  tier: { by: api_key, map: { k-pro: pro }, default: free }
deny: { session: [denied-session] }
rules:
  - { name: per-token, key: token, limit: 5/min }
  - { name: per-key, key: api_key, tiers: { free: 5/min, pro: 50/min }, overrides: { k-81b0: 500/min, 'test-*': 7/min } }
  - { name: per-caller, key: [caller, method], limit: 5/min, overrides: [ { key: [api_key=k-81b0, '*'], limit: 9/min } ] }
  - { name: per-basic, key: basic, when: { headers: { X-API-Key: other } }, limit: 5/min }
  - { name: per-plain, key: plain, limit: 5/min }
";

fn compiled() -> CompiledPolicy {
    CompiledPolicy::new(&parse(POLICY, "policy", None).unwrap().policy).unwrap()
}

fn keys(compiled: &CompiledPolicy, headers: &[(&str, &str)]) -> Vec<String> {
    let matched =
        compiled.match_request(&Request { method: "GET", target: "/", headers: &headers, ..Request::from_peer(None) });
    let name = |rule: u32| compiled.rules()[rule as usize].name.to_string();
    let written = matched
        .charges
        .iter()
        .map(|charge| format!("{} {}", name(charge.rule), String::from_utf8_lossy(matched.key(charge))));
    written.collect()
}

/// Returns the key that a request is charged under a rule.
fn key(compiled: &CompiledPolicy, rule: &str, headers: &[(&str, &str)]) -> String {
    let keys = keys(compiled, headers);
    keys.iter().find_map(|key| key.strip_prefix(&format!("{rule} "))).unwrap().to_owned()
}

#[test]
fn credentials_are_hashed_and_other_values_are_not() {
    let compiled = compiled();
    for (rule, header, value) in [
        ("per-token", "Authorization", "Bearer s3cr3t"),
        ("per-key", "X-API-Key", "s3cr3t"),
        ("per-caller", "X-API-Key", "s3cr3t"),
    ] {
        let key = key(&compiled, rule, &[(header, value)]);
        assert!(!key.contains("s3cr3t") && key.contains("hmac:"), "{rule} {key}");
    }
    assert_eq!(key(&compiled, "per-plain", &[("X-Plain", "s3cr3t")]), "s3cr3t");
    assert_eq!(key(&compiled, "per-caller", &[("X-Plain", "s3cr3t")]), "plain=s3cr3t|GET");
    let set = [("token", "s3cr3t"), ("caller", "s3cr3t")];
    let matched =
        compiled.match_request(&Request { method: "GET", target: "/", identities: &set, ..Request::from_peer(None) });
    assert!(matched.charges.iter().all(|charge| !String::from_utf8_lossy(matched.key(charge)).contains("s3cr3t")));
    assert_eq!(matched.charges.len(), 2);
}

/// A value that looks like a hash is hashed like any other: a client cannot send the key of another client.
#[test]
fn client_cannot_send_the_hash_of_another_client() {
    let compiled = compiled();
    let victim = key(&compiled, "per-key", &[("X-API-Key", "s3cr3t")]);
    assert_ne!(key(&compiled, "per-key", &[("X-API-Key", &victim)]), victim);
}

#[test]
fn entered_keys_may_be_plain_or_hashed_and_errors_omit_them() {
    let compiled = compiled();
    let read = |rule: &str, text: &str| {
        compiled.read_key(compiled.rule_named(rule).unwrap(), text).map_err(|error| error.to_string())
    };
    let hashed = key(&compiled, "per-key", &[("X-API-Key", "s3cr3t|x")]);
    for text in [r"s3cr3t\x7cx", hashed.as_str()] {
        assert_eq!(read("per-key", text), Ok(hashed.clone()), "{text}");
    }
    let hash = key(&compiled, "per-caller", &[("X-API-Key", "s3cr3t")]);
    assert_eq!(read("per-caller", "api_key=s3cr3t|get"), Ok(hash));
    for (rule, text) in [("per-key", r"s3cr3t\"), ("per-caller", "s3cr3t|GET"), ("per-key", "s3cr3t\n")] {
        let error = read(rule, text).unwrap_err();
        assert!(!error.contains("s3cr3t"), "{error}");
    }
}

#[test]
fn overrides_tiers_and_lists_match_the_plain_value() {
    let compiled = compiled();
    let quota = |rule: &str, value: &str| {
        let headers = [("X-API-Key", value)];
        let matched = compiled.match_request(&Request {
            method: "GET",
            target: "/",
            headers: &headers,
            ..Request::from_peer(None)
        });
        let charge =
            matched.charges.iter().find(|charge| &*compiled.rules()[charge.rule as usize].name == rule).unwrap();
        compiled.quotas()[charge.quota as usize].quota.amount()
    };
    for (rule, value, limit) in [
        ("per-key", "k-1", 5),
        ("per-key", "k-pro", 50),
        ("per-key", "k-81b0", 500),
        ("per-key", "test-9", 7),
        ("per-caller", "k-1", 5),
        ("per-caller", "k-81b0", 9),
    ] {
        assert_eq!(quota(rule, value), limit, "{rule} {value}");
    }
    let cookie = [("Cookie", "sid=denied-session")];
    let denied = Request { method: "GET", target: "/", headers: &cookie, ..Request::from_peer(None) };
    let value = compiled.denied_value(&denied).unwrap();
    assert!(value.starts_with("hmac:"), "{value}");
    let explained = compiled.explain(&denied);
    assert!(!format!("{explained:?}").contains("denied-session"), "{explained:?}");
}

#[test]
fn promises_contain_overrides_only_as_hashes() {
    let policy = parse(POLICY, "policy", None).unwrap().policy;
    let text = format!("{:?}", promises(&policy));
    assert!(!text.contains("k-81b0") && text.contains("api_key=hmac:") && text.contains("test-*"), "{text}");
}

#[test]
fn conditions_contain_credentials_only_as_hashes() {
    let policy = "version: 1
identity: { api_key: { header: X-API-Key, secret: true, trusted: true } }
rules:
  - name: a
    key: client_ip
    when: { identity: { api_key: { is: sekret-1, not: sekret-2 } }, headers: { authorization: Basic sekret-3 } }
    limit: 3/h
";
    let policy = parse(policy, "policy", None).unwrap().policy;
    let text = format!("{:?}", promises(&policy));
    let compiled = CompiledPolicy::new(&policy).unwrap();
    let peer = Some("203.0.113.9".parse().unwrap());
    let explained =
        format!("{:?}", compiled.explain(&Request { headers: &[("X-API-Key", "x")], ..Request::from_peer(peer) }));
    assert!(!text.contains("sekret") && !explained.contains("sekret"), "{text} {explained}");
    assert!(text.contains("authorization hmac:"), "{text}");
}

#[test]
fn explanations_contain_credentials_only_as_hashes() {
    let compiled = compiled();
    let headers = [("X-API-Key", "k-81b0"), ("Authorization", "Basic czNjcjN0")];
    let request = Request { method: "GET", target: "/", headers: &headers, ..Request::from_peer(None) };
    let explained = compiled.explain(&request);
    let text = format!("{explained:?}");
    assert!(!text.contains("k-81b0") && !text.contains("czNjcjN0"), "{text}");
    let basic = &explained.rules[3];
    assert!(matches!(&basic.outcome, RuleOutcome::NotApplied { reason } if reason.contains("hmac:")), "{basic:?}");
}
