//! Dependencies between the crates have one direction, as ARCHITECTURE.md documents.
//!
//! The test is in this crate because it depends on all others and is always built.
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::process::Command;

use serde_json::Value;

/// Each crate with the crates it may depend on. Planned crates are included.
const MAY_DEPEND_ON: [(&str, &[&str]); 9] = [
    ("tollgate-core", &[]),
    ("tollgate-policy", &["tollgate-core"]),
    ("tollgate-store", &["tollgate-core"]),
    // Starts real servers for tests, and does not know the crates under test.
    ("tollgate-testbed", &[]),
    ("tollgate-redis", &["tollgate-core", "tollgate-store", "tollgate-testbed"]),
    ("tollgate", &["tollgate-core", "tollgate-policy", "tollgate-store", "tollgate-redis", "tollgate-testbed"]),
    ("tollgate-workbench", &["tollgate-core", "tollgate-policy", "tollgate-store", "tollgate", "tollgate-testbed"]),
    (
        "tollgate-server",
        &["tollgate-core", "tollgate-policy", "tollgate-store", "tollgate", "tollgate-workbench", "tollgate-testbed"],
    ),
    (
        "tollgate-cli",
        &[
            "tollgate-core",
            "tollgate-policy",
            "tollgate-store",
            "tollgate",
            "tollgate-workbench",
            "tollgate-server",
            "tollgate-testbed",
        ],
    ),
];

/// Depends on all crates; no crate depends on it.
const BENCH: &str = "tollgate-bench";

/// Examples use the public crate only.
const EXAMPLES_MAY_DEPEND_ON: &[&str] = &["tollgate"];

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn name(package_or_dependency: &Value) -> &str {
    package_or_dependency["name"].as_str().unwrap()
}

fn dependencies(package: &Value) -> &[Value] {
    package["dependencies"].as_array().unwrap()
}

fn is_example(package: &Value) -> bool {
    package["manifest_path"].as_str().unwrap().replace('\\', "/").contains("/examples/")
}

/// The crates that a package may depend on.
fn allowed(package: &Value) -> &'static [&'static str] {
    if is_example(package) {
        return EXAMPLES_MAY_DEPEND_ON;
    }
    let entry = MAY_DEPEND_ON.iter().find(|(crate_name, _)| *crate_name == name(package));
    entry.unwrap_or_else(|| panic!("{} is not in MAY_DEPEND_ON", name(package))).1
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    let packages = packages();
    let names: Vec<&str> = packages.iter().map(name).collect();
    for package in packages.iter().filter(|package| name(package) != BENCH) {
        let allowed = allowed(package);
        // The tests of a store compare the limiter over it with the limiter in memory.
        let is_compared = |dependency: &&Value| {
            (name(package), name(dependency)) == ("tollgate-redis", "tollgate") && dependency["kind"] == "dev"
        };
        let known = dependencies(package).iter().filter(|dependency| !is_compared(dependency)).map(name);
        for dependency in known.filter(|dependency| names.contains(dependency)) {
            assert!(allowed.contains(&dependency), "{} must not depend on {dependency}", name(package));
        }
    }
}

#[test]
fn core_has_no_dependencies() {
    let packages = packages();
    let core = packages.iter().find(|package| name(package) == "tollgate-core").unwrap();
    // Dev-dependencies have a kind; normal dependencies have none.
    let built_with: Vec<&str> =
        dependencies(core).iter().filter(|dependency| dependency["kind"].is_null()).map(name).collect();
    assert!(built_with.is_empty(), "{built_with:?}");
}

#[test]
fn benchmarks_and_examples_are_not_published() {
    let packages = packages();
    let unpublished: Vec<_> = packages.iter().filter(|package| name(package) == BENCH || is_example(package)).collect();
    assert!(unpublished.len() > 1);
    for package in unpublished {
        assert_eq!(package["publish"], serde_json::json!([]), "{}", name(package));
    }
}
