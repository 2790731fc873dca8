//! Compares whole outputs for a policy with stored files.
//!
//! `TOLLGATE_WRITE_OUTPUTS=1` rewrites the files; review the changes.

use std::path::{Path, PathBuf};

use crate::running::output;

const POLICIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policies");

/// The path of a policy in `tests/policies`.
pub(crate) fn policy(name: &str) -> String {
    format!("{POLICIES}/{name}")
}

/// Asserts that the program succeeds and prints the content of the stored file.
fn assert_prints(stored: &str, arguments: &[&str]) {
    let output = output(arguments);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let file: PathBuf = [POLICIES, "outputs", stored].iter().collect();
    if std::env::var_os("TOLLGATE_WRITE_OUTPUTS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &printed).unwrap();
    }
    assert!(printed == read(&file), "{stored} has\n{}\nand the program prints\n{printed}", read(&file));
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn validate_prints_what_every_rule_guarantees() {
    assert_prints("validate.txt", &["validate", &policy("shop.yaml")]);
}

#[test]
fn validate_prints_what_leases_withhold_and_add() {
    assert_prints("leased-validate.txt", &["validate", &policy("leased.yaml")]);
    let output = output(&["validate", "--format", "json", &policy("leased.yaml")]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rules = answer["rules"].as_array().unwrap();
    let consistency: Vec<_> = rules.iter().map(|rule| [&rule["consistency"], &rule["lease_ms"]]).collect();
    let expected =
        serde_json::json!([["leased", 500], ["leased", 500], ["exact", null], ["exact", null], ["exact", null],]);
    assert_eq!(serde_json::json!(consistency), expected);
    let limits = rules[0]["grants"][0]["limits"].as_array().unwrap();
    let leased: Vec<_> = limits.iter().map(|limit| &limit["leased"]).collect();
    assert_eq!(serde_json::json!(leased), serde_json::json!([{ "most": 500, "expires_ms": 1_000 }, null]));
    let notes: Vec<_> = answer["notes"].as_array().unwrap().iter().map(|note| &note["code"]).collect();
    assert_eq!(serde_json::json!(notes), serde_json::json!(["stays-exact"]));
}

#[test]
fn validate_prints_what_regions_divide() {
    assert_prints("regional-validate.txt", &["validate", &policy("regional.yaml")]);
    assert_prints("regional-us-validate.txt", &["validate", "--region", "us", &policy("regional.yaml")]);
    let output = output(&["validate", "--format", "json", "--region", "us", &policy("regional.yaml")]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rules = answer["rules"].as_array().unwrap();
    let consistency: Vec<_> =
        rules.iter().map(|rule| [&rule["consistency"], &rule["epoch_ms"], &rule["in_each_region"]]).collect();
    let expected = serde_json::json!([["regional", 20_000, false], ["regional", 20_000, false], ["exact", null, true]]);
    assert_eq!(serde_json::json!(consistency), expected);
    // A share of 300 thousandths and loans of 475 and 190, of 600 a minute: 10 tokens a second.
    let mut regional = rules[0]["grants"][0]["limits"][0]["regional"].clone();
    let fallback = regional["regions"][0]["while_store_fails"].take();
    let expected = serde_json::json!({
        "global_failover": 190,
        "regions": [{
            "region": "us", "burst": 180, "share_thousandths": 300, "with_loans_thousandths": 965,
            "reserve_thousandths": 15, "server_failover": 294, "restart": null, "while_store_fails": null,
        }],
    });
    assert_eq!((regional, &fallback["limit"]), (expected, &"45/min burst 45".into()));
}

#[test]
fn validate_prints_rules_as_json() {
    // In the directory, so that the file name does not depend on the checkout.
    let output = crate::running::tollgate(&["validate", "--format", "json", "shop.yaml"])
        .current_dir(POLICIES)
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["file"], &answer["valid"]), (&"shop.yaml".into(), &true.into()));
    let login = &answer["rules"][2];
    let expected = serde_json::json!({
        "rule": "login",
        "when": ["method POST", "path /auth/login, /auth/register or /auth/reset-password"],
        "key": ["client_ip"], "unit": "requests", "deny": false, "shadow": false,
        "grants": [{
            "whose": [{ "kind": "everybody" }], "unlimited": false,
            "limits": [{
                "limit": "5/min", "algorithm": "sliding-window-log", "period_ms": 60_000,
                "most_in_period": { "charged": 5, "warned": 2 }, "most_in_second": { "charged": 5, "warned": 2 },
                "queue": null, "at_once": null, "longest_refusal_ms": 60_000, "refusal_cost": 1,
                "never_above": null, "while_store_fails": null, "leased": null,
                "regional": null,
            }],
        }],
        "warned": { "first": 2, "within_ms": 600_000 },
        "blocked": { "after": 20, "within_ms": 600_000, "for_ms": 900_000 },
        "on_failure": null, "consistency": null, "lease_ms": null,
        "epoch_ms": null, "in_each_region": false,
    });
    assert_eq!(login, &expected);
    let kinds: Vec<&serde_json::Value> =
        answer["rules"][1]["grants"].as_array().unwrap().iter().map(|grant| &grant["whose"]).collect();
    let expected = serde_json::json!([
        [{ "kind": "tier", "name": "free" }],
        [{ "kind": "tier", "name": "pro" }],
        [{ "kind": "tier", "name": "enterprise" }, { "kind": "key", "patterns": ["svc-*"] }],
        [{ "kind": "key", "patterns": ["big-customer"] }],
    ]);
    assert_eq!(serde_json::json!(kinds), expected);
}

const LOGIN: [&str; 9] =
    ["--ip", "203.0.113.9", "--user", "42", "--header", "X-Tier: pro", "--method", "post", "--path=/auth/login?next=/"];

fn explain<'a>(file: &'a str, request: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [&["explain", file][..], request, more].concat()
}

#[test]
fn explain_prints_which_rules_apply_and_why_others_do_not() {
    assert_prints("explain-login.txt", &explain(&policy("shop.yaml"), &LOGIN, &[]));
    let report = ["--ip", "2001:db8::7", "--user", "svc-billing", "--path", "/reports/2026/q1", "--cost", "3"];
    assert_prints("explain-report.txt", &explain(&policy("shop.yaml"), &report, &[]));
    let spelled = ["--ip", "203.0.113.9", "--method", "head", "--path", "/products/7%2f..%2f..%2fsearch"];
    assert_prints("explain-readings.txt", &explain(&policy("shop.yaml"), &spelled, &[]));
}

#[test]
fn explain_prints_that_a_list_decides() {
    assert_prints("explain-denied.txt", &explain(&policy("shop.yaml"), &["--ip", "192.0.2.1"], &[]));
    assert_prints("explain-allowed.txt", &explain(&policy("shop.yaml"), &["--ip", "198.51.100.7"], &[]));
}

#[test]
fn explain_prints_json() {
    assert_prints("explain-login.json", &explain(&policy("shop.yaml"), &LOGIN, &["--format", "json"]));
}

#[test]
fn every_command_prints_rules_that_deny() {
    let denied = policy("denied.yaml");
    let outside = ["--ip", "203.0.113.9", "--path", "/admin/users"];
    assert_prints("denied-validate.txt", &["validate", &denied]);
    assert_prints("denied-explain.txt", &explain(&denied, &outside, &[]));
    assert_prints("denied-explain-inside.txt", &explain(&denied, &["--ip", "10.1.2.3", "--path", "/admin/users"], &[]));
    assert_prints("denied-explain.json", &explain(&denied, &outside, &["--format", "json"]));
    assert_prints("denied-limits.md", &["limits", &denied]);
}

#[test]
fn limits_prints_markdown_and_json() {
    assert_prints("limits.md", &["limits", &policy("shop.yaml")]);
    assert_prints("limits.json", &["limits", &policy("shop.yaml"), "--format", "json"]);
}
