//! Identities from signed tokens: only what is signed as the policy says counts.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![cfg(feature = "jwt")]

mod plan_support;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use plan_support::{from, identity, limited, met, rule, with_rules};
use serde_json::{Value, json};
use tollgate_policy::model::{
    Allowance, Grant, Identity, IdentitySource, JwtAlgorithm, JwtKey, Rule, Tier, TierSource,
};
use tollgate_policy::{CompileError, Plan, Policy, Request};

const SECRET: &[u8] = b"a secret that only the issuer knows";
const NOW_S: u64 = 1_000_000_000;
const STRANGER: &str = "203.0.113.9";

fn key(algorithm: JwtAlgorithm, key: &[u8]) -> JwtKey {
    JwtKey { algorithm, key: key.to_vec(), issuer: None, audience: None }
}

fn claim(name: &str) -> IdentitySource {
    IdentitySource::Jwt(name.to_owned())
}

/// Everybody by address, users by claim, with a tier by claim.
fn policy(jwt: JwtKey) -> Policy {
    let tiers = vec![("free".to_owned(), limited(5)), ("enterprise".to_owned(), Grant::Unlimited)];
    Policy {
        identities: vec![identity("user", claim("sub"))],
        tier: Some(Tier { source: TierSource::Direct(claim("tier")), default: "free".into(), trusted: false }),
        jwt: Some(jwt),
        ..with_rules(vec![
            Rule { allowance: Allowance::Tiers(tiers), ..rule("per-ip", &["client_ip"]) },
            rule("per-user", &["user"]),
        ])
    }
}

fn plan(jwt: JwtKey) -> Plan {
    Plan::compile(&policy(jwt).check().unwrap()).unwrap()
}

fn token(algorithm: Algorithm, secret: &[u8], claims: &Value) -> String {
    encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret)).unwrap()
}

fn meets(plan: &Plan, token: &str) -> Vec<String> {
    let value = format!("Bearer {token}");
    let headers = [("Authorization", value.as_str())];
    met(plan, &Request { unix_time_s: Some(NOW_S), ..from(STRANGER, "GET", "/", &headers) })
}

/// What somebody without a token meets: no tier, no user.
const STRANGERS: [&str; 1] = ["per-ip 203.0.113.9"];

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut encoded = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        (0..=chunk.len()).for_each(|at| encoded.push(char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize])));
    }
    encoded
}

#[test]
fn a_signed_claim_is_an_identity_and_a_tier() {
    let plan = plan(key(JwtAlgorithm::Hs256, SECRET));
    let claims = |sub: Value| token(Algorithm::HS256, SECRET, &json!({"sub": sub, "exp": NOW_S + 10}));
    assert_eq!(meets(&plan, &claims(json!("alice"))), ["per-ip 203.0.113.9", "per-user alice"]);
    assert_eq!(meets(&plan, &claims(json!(42))), ["per-ip 203.0.113.9", "per-user 42"]);
    assert_eq!(meets(&plan, &claims(json!(true))), ["per-ip 203.0.113.9", "per-user true"]);
    for other in [json!(null), json!(["alice"]), json!({"a": 1}), json!("")] {
        assert_eq!(meets(&plan, &claims(other)), STRANGERS);
    }
    let enterprise = token(Algorithm::HS256, SECRET, &json!({"sub": "alice", "tier": "enterprise"}));
    assert_eq!(meets(&plan, &enterprise), ["per-user alice"]);
    assert_eq!(met(&plan, &from(STRANGER, "GET", "/", &())), STRANGERS);
}

#[test]
fn what_is_not_signed_as_it_should_be_says_nothing() {
    let plan = plan(key(JwtAlgorithm::Hs256, SECRET));
    let claims = json!({"sub": "alice", "tier": "enterprise", "exp": NOW_S + 1_000});
    let good = token(Algorithm::HS256, SECRET, &claims);
    assert_eq!(meets(&plan, &good), ["per-user alice"]);
    let [head, body, signature] = *good.split('.').collect::<Vec<_>>() else { panic!("three parts") };
    let none = base64(r#"{"alg":"none","typ":"JWT"}"#);
    let forged = base64(r#"{"sub":"alice","tier":"enterprise"}"#);
    for bad in [
        token(Algorithm::HS256, b"another secret", &claims),
        token(Algorithm::HS256, b"", &claims),
        token(Algorithm::HS512, SECRET, &claims),
        format!("{none}.{body}."),
        format!("{none}.{body}.{signature}"),
        format!("{}.{body}.", base64(r#"{"alg":"None"}"#)),
        format!("{}.{body}.", base64(r#"{"alg":""}"#)),
        format!("{head}.{body}."),
        format!("{head}.{body}"),
        format!("{head}.{forged}.{signature}"),
        format!("{good}.x"),
        "..".to_owned(),
        String::new(),
        format!("{good}, {good}"),
        "é".to_owned(),
        token(Algorithm::HS256, SECRET, &json!({"sub": "alice", "tier": "enterprise", "pad": "x".repeat(20_000)})),
    ] {
        assert_eq!(meets(&plan, &bad), STRANGERS, "{bad}");
    }
}

/// The public key is public: it must never do as the secret of another algorithm.
#[test]
fn a_public_key_is_no_shared_secret() {
    for (algorithm, pem) in [(JwtAlgorithm::Rs256, RSA_PUBLIC), (JwtAlgorithm::EdDsa, ED_PUBLIC)] {
        let plan = plan(key(algorithm, pem.as_bytes()));
        let claims = json!({"sub": "alice", "tier": "enterprise"});
        for secret in [pem, pem.trim_end()] {
            assert_eq!(meets(&plan, &token(Algorithm::HS256, secret.as_bytes(), &claims)), STRANGERS);
        }
    }
}

#[test]
fn public_keys_verify_what_their_owner_signed() {
    let plan = plan(key(JwtAlgorithm::EdDsa, ED_PUBLIC.as_bytes()));
    let owner = EncodingKey::from_ed_pem(ED_PRIVATE.as_bytes()).unwrap();
    let claims = json!({"sub": "alice"});
    let good = encode(&Header::new(Algorithm::EdDSA), &claims, &owner).unwrap();
    assert_eq!(meets(&plan, &good), ["per-ip 203.0.113.9", "per-user alice"]);
}

#[test]
fn times_count_with_a_minute_of_leeway() {
    let plan = plan(key(JwtAlgorithm::Hs256, SECRET));
    let with = |name: &str, value: Value| {
        let token = token(Algorithm::HS256, SECRET, &json!({"sub": "alice", name: value}));
        meets(&plan, &token).len() == 2
    };
    for (exp, valid) in [(json!(NOW_S), true), (json!(NOW_S - 59), true), (json!(NOW_S - 60), false), (json!(1), false)]
    {
        assert_eq!(with("exp", exp.clone()), valid, "exp {exp}");
    }
    for (nbf, valid) in [(json!(NOW_S), true), (json!(NOW_S + 60), true), (json!(NOW_S + 61), false)] {
        assert_eq!(with("nbf", nbf.clone()), valid, "nbf {nbf}");
    }
    assert!(with("exp", json!(1_000_000_000.5)));
    for no_time in [json!("9999999999"), json!(-1), json!(null), json!([]), json!(true)] {
        assert!(!with("exp", no_time.clone()), "exp {no_time}");
    }
    assert!(with("exp", json!(1e300)));
}

#[test]
fn the_issuer_and_the_audience_count_where_they_are_asked_for() {
    let asked = JwtKey { issuer: Some("us".into()), audience: Some("api".into()), ..key(JwtAlgorithm::Hs256, SECRET) };
    let plan = plan(asked);
    for (claims, valid) in [
        (json!({"sub": "a", "iss": "us", "aud": "api"}), true),
        (json!({"sub": "a", "iss": "us", "aud": ["web", "api"]}), true),
        (json!({"sub": "a", "iss": "them", "aud": "api"}), false),
        (json!({"sub": "a", "iss": "us", "aud": "web"}), false),
        (json!({"sub": "a", "aud": "api"}), false),
        (json!({"sub": "a", "iss": "us"}), false),
    ] {
        assert_eq!(meets(&plan, &token(Algorithm::HS256, SECRET, &claims)).len() == 2, valid, "{claims}");
    }
}

/// `trusted`: somebody in front has verified the token. One that claims not to be signed was not verified by anybody.
#[test]
fn a_trusted_claim_is_not_verified_again() {
    let user = Identity { trusted: true, ..identity("user", claim("sub")) };
    let policy = Policy { identities: vec![user], ..with_rules(vec![rule("per-user", &["user"])]) };
    let plan = Plan::compile(&policy.check().unwrap()).unwrap();
    let signed = token(Algorithm::HS256, b"not known here", &json!({"sub": "alice", "exp": 1}));
    assert_eq!(meets(&plan, &signed), ["per-user alice"]);
    let body = signed.split('.').nth(1).unwrap();
    let none = format!("{}.{body}.", base64(r#"{"alg":"none"}"#));
    assert_eq!(meets(&plan, &none), [""; 0]);
}

#[test]
fn a_key_that_cannot_verify_is_refused() {
    let compile = |jwt: JwtKey| Plan::compile(&policy(jwt).check().unwrap()).unwrap_err();
    for (algorithm, text) in [
        (JwtAlgorithm::Rs256, "no key"),
        (JwtAlgorithm::Es256, RSA_PUBLIC),
        (JwtAlgorithm::EdDsa, "-----BEGIN PUBLIC KEY-----"),
    ] {
        let error = compile(key(algorithm, text.as_bytes()));
        assert!(matches!(error, CompileError::JwtKey { .. }), "{error}");
        assert!(error.to_string().contains("`jwt`"), "{error}");
    }
}

// Keys for tests, made for nothing else.
const ED_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIP33axdbB36hXezE45NiXW2Re9jI6WKGjFUAV16mltT2
-----END PRIVATE KEY-----
";
const ED_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEADlOmNX5wehdcTrjlv2Ik8sLpfmV2nBBnVlDNHxbd658=
-----END PUBLIC KEY-----
";
const RSA_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAswL97f4DxmyJG4HCpqrE
7Ng8iIKMJ8sdoYox7zDs0gAKXqFVpQpTZtWf7KHGUszXMq5jhEJkRuVauKb2TRFi
73y0fgXjNurYRlRfs/WumueV/LWdPBWlURKGtwkPzbon8qWn5e/lvltasgqSOmvf
85xSosNsCcYRTcw53jcHikYVHax9gZ3F5o5NKjZuncPXtfJkt97/lMFALvBKKnHA
lDwWxPYdbD3Ty58/sC82ET+6RW6wsHwOoOYlAfJ3Vr017gBLUoCuNxgkJOU6eZ4P
NkvHUHLc+PqaluDXqULqoDu2elSzA6ooFkpp36ByRGE1Z+liKcNRpOleeC0nw4Ig
QwIDAQAB
-----END PUBLIC KEY-----
";
