//! A program without the feature `jwt` refuses what it could not hold to.

#![cfg(all(feature = "yaml", not(feature = "jwt")))]
#![allow(clippy::unwrap_used)]

use tollgate_policy::parse;

#[test]
fn an_identity_from_a_token_is_refused() {
    for identity in ["user: { jwt: sub }", "user: { jwt: sub, trusted: true }", "tier: { jwt: plan, default: free }"] {
        let text = format!("version: 1\nidentity:\n  {identity}\n");
        let report = parse(&text, "a", None).unwrap_err();
        let codes: Vec<&str> = report.errors.iter().map(|error| error.code).collect();
        assert_eq!(codes, ["jwt-not-built"], "{report}");
    }
}

/// Apart from the other fixtures, because the message only exists in such a program.
#[test]
fn the_message_reads_as_it_should() {
    let text = include_str!("fixtures/without_jwt/jwt-not-built.yaml");
    let report = parse(text, "jwt-not-built.yaml", None).unwrap_err();
    assert_eq!(report.to_string().trim_end(), include_str!("fixtures/without_jwt/jwt-not-built.txt").trim_end());
}
