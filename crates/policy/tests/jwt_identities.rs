//! Identities from signed tokens: only tokens that are signed as the policy requires are used.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![cfg(feature = "jwt")]

mod matching_support;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use matching_support::{charged, from, identity, limited, patterns, rule, rule_for, strings, with_rules};
use serde_json::{Value, json};
use tollgate_policy::model::{
    Allowance, Condition, Grant, Identity, IdentitySource, JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial, OnInvalid,
    Override, Rule, Tier, TierSource, When,
};
use tollgate_policy::{Access, CompileError, CompiledPolicy, Policy, Request};

const SECRET: &[u8] = b"a secret that only the issuer knows";
const NOW_S: u64 = 1_000_000_000;
const CLIENT: &str = "203.0.113.9";

fn key(algorithm: JwtAlgorithm, key: &[u8]) -> JwtSettings {
    keys(vec![JwtKey { kid: None, algorithm, key: KeyMaterial::Written(key.to_vec()) }])
}

fn keys(keys: Vec<JwtKey>) -> JwtSettings {
    JwtSettings { keys, issuer: None, audience: None }
}

fn claim(name: &str) -> IdentitySource {
    IdentitySource::Jwt(name.to_owned())
}

/// Returns a policy with limits by address and by user, with the user and the tier from claims.
fn policy(jwt: JwtSettings) -> Policy {
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

fn compiled(jwt: JwtSettings) -> CompiledPolicy {
    CompiledPolicy::new(&policy(jwt).check().unwrap()).unwrap()
}

fn token(algorithm: Algorithm, secret: &[u8], claims: &Value) -> String {
    encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret)).unwrap()
}

fn charges(compiled: &CompiledPolicy, token: &str) -> Vec<String> {
    let value = format!("Bearer {token}");
    let headers = [("Authorization", value.as_str())];
    charged(compiled, &Request { unix_time_s: Some(NOW_S), ..from(CLIENT, "GET", "/", &headers) })
}

/// The charges of a client without a token: no tier, no user.
const ANONYMOUS: [&str; 1] = ["per-ip 203.0.113.9"];

/// The charges of a client with an unusable token: no tier, and its address in place of a user.
const UNUSABLE: [&str; 2] = ["per-ip 203.0.113.9", r"per-user \unusable:203.0.113.9"];

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
fn signed_claims_are_identity_and_tier() {
    let compiled = compiled(key(JwtAlgorithm::Hs256, SECRET));
    let claims = |sub: Value| token(Algorithm::HS256, SECRET, &json!({"sub": sub, "exp": NOW_S + 10}));
    assert_eq!(charges(&compiled, &claims(json!("alice"))), ["per-ip 203.0.113.9", "per-user alice"]);
    assert_eq!(charges(&compiled, &claims(json!(42))), ["per-ip 203.0.113.9", "per-user 42"]);
    assert_eq!(charges(&compiled, &claims(json!(true))), ["per-ip 203.0.113.9", "per-user true"]);
    for other in [json!(null), json!("")] {
        assert_eq!(charges(&compiled, &claims(other)), ANONYMOUS);
    }
    // A subject is a string (RFC 7519): a token with a subject of another type is malformed.
    for other in [json!(["alice"]), json!({"a": 1})] {
        assert_eq!(charges(&compiled, &claims(other)), UNUSABLE);
    }
    let enterprise = token(Algorithm::HS256, SECRET, &json!({"sub": "alice", "tier": "enterprise"}));
    assert_eq!(charges(&compiled, &enterprise), ["per-user alice"]);
    assert_eq!(charged(&compiled, &from(CLIENT, "GET", "/", &())), ANONYMOUS);
}

#[test]
fn wrongly_signed_tokens_are_unusable() {
    let compiled = compiled(key(JwtAlgorithm::Hs256, SECRET));
    let claims = json!({"sub": "alice", "tier": "enterprise", "exp": NOW_S + 1_000});
    let good = token(Algorithm::HS256, SECRET, &claims);
    assert_eq!(charges(&compiled, &good), ["per-user alice"]);
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
        "é".to_owned(),
        token(Algorithm::HS256, SECRET, &json!({"sub": "alice", "tier": "enterprise", "pad": "x".repeat(20_000)})),
    ] {
        assert_eq!(charges(&compiled, &bad), UNUSABLE, "{bad}");
    }
    assert_eq!(charges(&compiled, ""), UNUSABLE);
    let header = Header { crit: Some(vec!["x".to_owned()]), ..Header::new(Algorithm::HS256) };
    let critical = encode(&header, &json!({"sub": "alice"}), &EncodingKey::from_secret(SECRET)).unwrap();
    assert_eq!(charges(&compiled, &critical), UNUSABLE);
    // A gateway has joined two lines: the first token is used.
    assert_eq!(charges(&compiled, &format!("{good}, Bearer {forged}")), ["per-user alice"]);
}

/// The public key is public: it must never be accepted as the secret of another algorithm.
#[test]
fn public_key_is_not_accepted_as_shared_secret() {
    for (algorithm, pem) in [(JwtAlgorithm::Rs256, RSA_PUBLIC), (JwtAlgorithm::EdDsa, ED_PUBLIC)] {
        let compiled = compiled(key(algorithm, pem.as_bytes()));
        let claims = json!({"sub": "alice", "tier": "enterprise"});
        for secret in [pem, pem.trim_end()] {
            assert_eq!(charges(&compiled, &token(Algorithm::HS256, secret.as_bytes(), &claims)), UNUSABLE);
        }
    }
}

#[test]
fn public_key_verifies_tokens_of_its_private_key() {
    let compiled = compiled(key(JwtAlgorithm::EdDsa, ED_PUBLIC.as_bytes()));
    let owner = EncodingKey::from_ed_pem(ED_PRIVATE.as_bytes()).unwrap();
    let claims = json!({"sub": "alice"});
    let good = encode(&Header::new(Algorithm::EdDSA), &claims, &owner).unwrap();
    assert_eq!(charges(&compiled, &good), ["per-ip 203.0.113.9", "per-user alice"]);
}

#[test]
fn token_times_have_a_leeway_of_a_minute() {
    let compiled = compiled(key(JwtAlgorithm::Hs256, SECRET));
    let with = |name: &str, value: Value| {
        let token = token(Algorithm::HS256, SECRET, &json!({"sub": "alice", name: value}));
        let charged = charges(&compiled, &token);
        assert!(
            charged.iter().eq(["per-ip 203.0.113.9", "per-user alice"].iter()) || charged.iter().eq(UNUSABLE.iter())
        );
        charged[1] == "per-user alice"
    };
    for (exp, valid) in [(json!(NOW_S), true), (json!(NOW_S - 59), true), (json!(NOW_S - 60), false), (json!(1), false)]
    {
        assert_eq!(with("exp", exp.clone()), valid, "exp {exp}");
    }
    for (nbf, valid) in [(json!(NOW_S), true), (json!(NOW_S + 60), true), (json!(NOW_S + 61), false)] {
        assert_eq!(with("nbf", nbf.clone()), valid, "nbf {nbf}");
    }
    assert!(with("exp", json!(1_000_000_000.5)));
    for invalid in [json!("9999999999"), json!(-1), json!(null), json!([]), json!(true)] {
        assert!(!with("exp", invalid.clone()), "exp {invalid}");
    }
    assert!(with("exp", json!(1e300)));
}

#[test]
fn issuer_and_audience_are_checked_if_configured() {
    let required =
        JwtSettings { issuer: Some("us".into()), audience: Some("api".into()), ..key(JwtAlgorithm::Hs256, SECRET) };
    let compiled = compiled(required);
    for (claims, valid) in [
        (json!({"sub": "a", "iss": "us", "aud": "api"}), true),
        (json!({"sub": "a", "iss": "us", "aud": ["web", "api"]}), true),
        (json!({"sub": "a", "iss": "them", "aud": "api"}), false),
        (json!({"sub": "a", "iss": "us", "aud": "web"}), false),
        (json!({"sub": "a", "aud": "api"}), false),
        (json!({"sub": "a", "iss": "us"}), false),
    ] {
        let charged = charges(&compiled, &token(Algorithm::HS256, SECRET, &claims));
        assert_eq!(charged[1], if valid { "per-user a" } else { UNUSABLE[1] }, "{claims}");
    }
}

/// `trusted`: a gateway has verified the token. A token that declares no signature was not verified.
#[test]
fn trusted_claim_is_not_verified() {
    let user = Identity { trusted: true, ..identity("user", claim("sub")) };
    let policy = Policy { identities: vec![user], ..with_rules(vec![rule("per-user", &["user"])]) };
    let compiled = CompiledPolicy::new(&policy.check().unwrap()).unwrap();
    let signed = token(Algorithm::HS256, b"not known here", &json!({"sub": "alice", "exp": 1}));
    assert_eq!(charges(&compiled, &signed), ["per-user alice"]);
    let body = signed.split('.').nth(1).unwrap();
    let none = format!("{}.{body}.", base64(r#"{"alg":"none"}"#));
    assert_eq!(charges(&compiled, &none), UNUSABLE[1..]);
}

fn with_on_invalid(on_invalid: OnInvalid, change: impl FnOnce(&mut Policy)) -> CompiledPolicy {
    let mut policy = policy(key(JwtAlgorithm::Hs256, SECRET));
    policy.identities[0].on_invalid = on_invalid;
    change(&mut policy);
    CompiledPolicy::new(&policy.check().unwrap()).unwrap()
}

fn expired() -> String {
    token(Algorithm::HS256, SECRET, &json!({"sub": "alice", "tier": "enterprise", "exp": 1}))
}

#[test]
fn unusable_token_is_treated_by_on_invalid() {
    let absent = with_on_invalid(OnInvalid::Absent, |_| {});
    assert_eq!(charges(&absent, &expired()), ANONYMOUS);
    let refuse = with_on_invalid(OnInvalid::Refuse, |_| {});
    let value = format!("Bearer {}", expired());
    let headers = [("Authorization", value.as_str())];
    let request = Request { unix_time_s: Some(NOW_S), ..from(CLIENT, "GET", "/", &headers) };
    let matched = refuse.match_request(&request);
    assert_eq!((matched.access, matched.charges.len()), (Access::Unauthorized, 0));
    let explained = refuse.explain(&request);
    assert_eq!((explained.access, explained.rules.len()), (Access::Unauthorized, 0));
    assert_eq!(explained.decided_by.as_deref(), Some("user: its token is unusable"));
    // A token that no matching rule counts by is not checked.
    let elsewhere = with_on_invalid(OnInvalid::Refuse, |policy| policy.rules[1].when.paths = vec!["/users".into()]);
    assert_eq!(charges(&elsewhere, &expired()), ANONYMOUS);
    // A client on the `allow` list needs no token.
    let allowed =
        with_on_invalid(OnInvalid::Refuse, |policy| policy.allow.client_ip = vec!["203.0.113.9/32".parse().unwrap()]);
    assert_eq!(allowed.match_request(&request).access, Access::Allowed);
}

#[test]
fn explanation_states_why_a_token_is_unusable() {
    let compiled = compiled(key(JwtAlgorithm::Hs256, SECRET));
    let user = |token: &str| {
        let value = format!("Bearer {token}");
        let headers = [("Authorization", value.as_str())];
        let request = Request { unix_time_s: Some(NOW_S), ..from(CLIENT, "GET", "/", &headers) };
        let identities = compiled.explain(&request).identities;
        identities.into_iter().find(|(name, _)| name == "user").map(|(_, value)| value).unwrap()
    };
    let claims = |time: &str, value: u64| token(Algorithm::HS256, SECRET, &json!({"sub": "alice", time: value}));
    for (token, reason) in [
        (expired(), "expired"),
        (claims("nbf", NOW_S + 1_000), "not yet valid"),
        (token(Algorithm::HS256, b"another secret", &json!({"sub": "alice"})), "bad signature"),
        (token(Algorithm::HS512, SECRET, &json!({"sub": "alice"})), "another algorithm"),
        ("x".repeat(20_000), "too long"),
        ("x".to_owned(), "malformed"),
    ] {
        let expected = format!("unusable token: {reason}; counted under the client's address");
        assert_eq!(user(&token), expected);
    }
}

/// An unusable token does not fall through to the next identity of a list, and no access list or override matches it.
#[test]
fn unusable_token_matches_no_list_and_no_override() {
    let compiled = with_on_invalid(OnInvalid::Count, |policy| {
        policy.identities.push(identity("client", IdentitySource::First(strings(&["user", "client_ip"]))));
        policy.allow.identities = vec![("user".to_owned(), patterns(&["*"]))];
        policy.deny.identities = vec![("client".to_owned(), patterns(&["client_ip=203.0.113.9"]))];
        policy.rules = vec![
            Rule {
                overrides: vec![Override { key: patterns(&["*"]), grant: Grant::Unlimited }],
                ..rule("per-client", &["client"])
            },
            rule_for("per-user", &["client_ip"], when_identities(&[("user", Condition::Present)])),
            rule_for("anonymous", &["client_ip"], when_identities(&[("user", Condition::Absent)])),
            rule_for("alice", &["client_ip"], when_identities(&[("user", Condition::OneOf(patterns(&["*"])))])),
            Rule {
                replaces: strings(&["anonymous"]),
                ..rule_for("members", &["client_ip"], when_identities(&[("user", Condition::Present)]))
            },
        ];
    });
    let expected = [
        r"per-client user=\unusable:203.0.113.9",
        "per-user 203.0.113.9",
        "anonymous 203.0.113.9",
        "members 203.0.113.9",
    ];
    assert_eq!(charges(&compiled, &expired()), expected);
}

fn when_identities(identities: &[(&str, Condition)]) -> When {
    let identities = identities.iter().map(|(name, condition)| ((*name).to_owned(), condition.clone())).collect();
    When { identities, ..When::default() }
}

/// Operators can enter the key with any notation of the address.
#[test]
fn key_of_unusable_tokens_can_be_entered() {
    let compiled = compiled(key(JwtAlgorithm::Hs256, SECRET));
    assert_eq!(compiled.read_key(1, r"\unusable:203.0.113.9").unwrap(), r"\unusable:203.0.113.9");
    assert_eq!(compiled.read_key(1, r"\unusable:2001:db8::1").unwrap(), r"\unusable:2001:db8::/64");
    assert_eq!(compiled.read_key(1, r"\unusable:").unwrap(), r"\unusable:");
    assert!(compiled.read_key(1, r"\unusable:x").is_err());
    assert!(compiled.read_key(0, r"\unusable:203.0.113.9").is_err());
    // No subject can take the name of such a key.
    let claims = json!({"sub": r"\unusable:203.0.113.9"});
    let charged = charges(&compiled, &token(Algorithm::HS256, SECRET, &claims));
    assert_eq!(charged[1], r"per-user \x5cunusable:203.0.113.9");
}

#[test]
fn key_that_does_not_fit_its_algorithm_is_an_error() {
    let compile = |jwt: JwtSettings| CompiledPolicy::new(&policy(jwt).check().unwrap()).unwrap_err();
    for (algorithm, text) in [
        (JwtAlgorithm::Rs256, "not a key"),
        (JwtAlgorithm::Es256, RSA_PUBLIC),
        (JwtAlgorithm::EdDsa, "-----BEGIN PUBLIC KEY-----"),
    ] {
        let error = compile(key(algorithm, text.as_bytes()));
        assert!(matches!(error, CompileError::JwtKey { .. }), "{error}");
        assert!(error.to_string().contains("`jwt`"), "{error}");
    }
}

// Keys that are used only in these tests.
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

fn named(kid: &str, algorithm: JwtAlgorithm, key: &[u8]) -> JwtKey {
    JwtKey { kid: Some(kid.to_owned()), algorithm, key: KeyMaterial::Written(key.to_vec()) }
}

fn signed_by(kid: Option<&str>, algorithm: Algorithm, key: &EncodingKey) -> String {
    let header = Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) };
    encode(&header, &json!({"sub": "alice"}), key).unwrap()
}

const OLD: &[u8] = b"the old secret, thirty-two bytes!";
const NEW: &[u8] = b"the new secret, thirty-two bytes!";
const ALICES: [&str; 2] = ["per-ip 203.0.113.9", "per-user alice"];

#[test]
fn each_key_verifies_tokens_with_its_kid_or_without_kid() {
    let compiled = compiled(keys(vec![named("old", JwtAlgorithm::Hs256, OLD), named("new", JwtAlgorithm::Hs256, NEW)]));
    let token = |kid, secret| signed_by(kid, Algorithm::HS256, &EncodingKey::from_secret(secret));
    for (kid, secret, is_valid) in [
        (Some("old"), OLD, true),
        (Some("new"), NEW, true),
        (None, OLD, true),
        (None, NEW, true),
        (Some("old"), NEW, false),
        (Some("new"), OLD, false),
        (Some("other"), OLD, false),
        (Some(""), OLD, false),
        (None, SECRET, false),
    ] {
        let expected: &[&str] = if is_valid { &ALICES } else { &UNUSABLE };
        assert_eq!(charges(&compiled, &token(kid, secret)), expected, "{kid:?} {is_valid}");
    }
    let other = signed_by(Some("old"), Algorithm::HS512, &EncodingKey::from_secret(OLD));
    assert_eq!(charges(&compiled, &other), UNUSABLE);
}

/// Two keys of different types may have the same name: the type determines the algorithm.
#[test]
fn keys_of_different_types_with_one_kid_are_distinct() {
    let ed = named("k", JwtAlgorithm::EdDsa, ED_PUBLIC.as_bytes());
    let compiled = compiled(keys(vec![ed, named("k", JwtAlgorithm::Hs256, NEW)]));
    let owner = EncodingKey::from_ed_pem(ED_PRIVATE.as_bytes()).unwrap();
    assert_eq!(charges(&compiled, &signed_by(Some("k"), Algorithm::EdDSA, &owner)), ALICES);
    assert_eq!(charges(&compiled, &signed_by(Some("k"), Algorithm::HS256, &EncodingKey::from_secret(NEW))), ALICES);
    for secret in [ED_PUBLIC, ED_PUBLIC.trim_end()] {
        let forged = signed_by(Some("k"), Algorithm::HS256, &EncodingKey::from_secret(secret.as_bytes()));
        assert_eq!(charges(&compiled, &forged), UNUSABLE);
    }
}

#[test]
fn keys_of_a_jwks_verify_tokens_of_their_private_keys() {
    let set = format!(
        r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"ed","use":"sig","x":"{ED_X}"}},
            {{"kty":"EC","crv":"P-256","kid":"ec","x":"{EC_X}","y":"{EC_Y}"}},
            {{"kty":"RSA","kid":"rsa","n":"{RSA_N}","e":"AQAB"}},
            {{"kty":"oct","kid":"oct","alg":"HS256","k":"{}"}}]}}"#,
        base64(str::from_utf8(NEW).unwrap())
    );
    let compiled = compiled(keys(JwtKey::from_jwks(set.as_bytes()).unwrap()));
    for (kid, algorithm, key) in [
        ("ed", Algorithm::EdDSA, EncodingKey::from_ed_pem(ED_PRIVATE.as_bytes()).unwrap()),
        ("ec", Algorithm::ES256, EncodingKey::from_ec_pem(EC_PRIVATE.as_bytes()).unwrap()),
        ("oct", Algorithm::HS256, EncodingKey::from_secret(NEW)),
    ] {
        assert_eq!(charges(&compiled, &signed_by(Some(kid), algorithm, &key)), ALICES, "{kid}");
        assert_eq!(charges(&compiled, &signed_by(None, algorithm, &key)), ALICES, "{kid}");
        assert_eq!(charges(&compiled, &signed_by(Some("other"), algorithm, &key)), UNUSABLE, "{kid}");
    }
    assert_eq!(charges(&compiled, RSA_TOKEN), ALICES);
    assert_eq!(charges(&compiled, &RSA_TOKEN.replacen('.', ".e", 1)), UNUSABLE);
}

#[test]
fn too_many_duplicate_or_short_keys_are_errors() {
    let refused = |keys: Vec<JwtKey>| {
        let jwt = JwtSettings { keys, issuer: None, audience: None };
        policy(jwt).check().unwrap_err().to_string()
    };
    let numbered = |count: usize| (0..count).map(|at| named(&at.to_string(), JwtAlgorithm::Hs256, NEW)).collect();
    assert!(refused(numbered(17)).contains("from 1 to 16, found 17"));
    assert!(refused(Vec::new()).contains("from 1 to 16, found 0"));
    let twice = vec![named("k", JwtAlgorithm::Hs256, OLD), named("k", JwtAlgorithm::Hs256, NEW)];
    assert!(refused(twice).contains("two keys have the `kid` `k`"));
    let short = refused(vec![named("k", JwtAlgorithm::Hs256, b"fifteen bytes!!")]);
    assert!(short.contains("15 bytes, and at least 16 are required"), "{short}");
}

const ED_X: &str = "DlOmNX5wehdcTrjlv2Ik8sLpfmV2nBBnVlDNHxbd658";
const EC_X: &str = "-bBSNZJHUZu5srNoNjqwiSSoNlhMXSvLw3i0S3ltXWE";
const EC_Y: &str = "5itcX5C7G0ofvAIR4PKSGFN0zXNvRZ3GBbfCqIysTc4";
const EC_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgpjfsxvbZffqFT9k9
hh9GvvN8m7bXAfb8xieRmT/pMHWhRANCAAT5sFI1kkdRm7mys2g2OrCJJKg2WExd
K8vDeLRLeW1dYeYrXF+QuxtKH7wCEeDykhhTdM1zb0WdxgW3wqiMrE3O
-----END PRIVATE KEY-----
";
const RSA_N: &str = "hh6RYOkGodIMNtMbkrNkUIj1ECSFOU6bW9YdeNFhEpXslgkoZWUvSd6S_SVUyf4TMuL_40KFAY_CPQqBfzQjG_1wp_Dq6yncIxov\
     sDp9D_kPO6zJFhvTEOT638CGl7cK9GKC8kxKPFOXDZQlUMv0sruHx3jKEUrVFi3v9fI-HzbOh52etpDnMJHoqwaNbk4U_vNpQKGa\
     4vI_TlBAo8H9c6iQ6neQjaCB0HU1tWhMn4a_TUcQvfpWmkT7-72QjUPcb_LRjOm6uFFKY9BC91hn-uCGJumzAuWfu3A26innyAEi\
     kkF3sQ1wGb9ixrwqv4GW4VrEdz3kJLOJQkGW4hN-Gw";
/// Signed by the owner of that modulus: `kid` is `rsa`, and the claims are those of [`signed_by`].
const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJhbGljZSJ9.EbH8jQFnvxJsXDiH8p8yyPLcrLbiXpFe8EYuVO0hj3\
     pXTD1aamOtOLjZWMOZ9KH3r_3ZsP_4zjuNg2BsS3Mwi_G-YJF8SqUZMrINGeOFxvy2GwlNGagW4NY2mY_L9Q5iHLen0SRn70fVok\
     P88gQvLc6kfheSLDrzsSmBXaZN8FhuidAfDab5mijjoQmVwJkdk3U5yogPE8BLmV01kBNi6be5bXceWEF7j0D2QFzr4m-fnJJpyZ\
     X7KsuokuaFxJgIQm4KjlItlJp4WVBjN1AvYaQNQe372ryVAcmdxhNhPf7U-xxjbRYeb5jxwmLDdyABvYmpC2uMm7qFLLgosF9F6A";
