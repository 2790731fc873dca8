//! A program without the feature `jwt` refuses policies that need it.

#![cfg(all(feature = "yaml", not(feature = "jwt")))]
#![allow(clippy::unwrap_used)]

use tollgate_policy::parse;

#[test]
fn identity_from_a_token_is_an_error() {
    for identity in ["user: { jwt: sub }", "user: { jwt: sub, trusted: true }", "tier: { jwt: plan, default: free }"] {
        let text = format!("version: 1\nidentity:\n  {identity}\n");
        let report = parse(&text, "a", None).unwrap_err();
        let codes: Vec<&str> = report.errors.iter().map(|error| error.code).collect();
        assert_eq!(codes, ["jwt-not-built"], "{report}");
    }
}

/// The fixture is separate from the others, because the message only exists in a program without the feature.
#[test]
fn message_matches_its_fixture() {
    let text = include_str!("fixtures/without_jwt/jwt-not-built.yaml");
    let report = parse(text, "jwt-not-built.yaml", None).unwrap_err();
    assert_eq!(report.to_string().trim_end(), include_str!("fixtures/without_jwt/jwt-not-built.txt").trim_end());
}
