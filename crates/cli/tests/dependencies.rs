//! Dependencies between the crates point one way, as ARCHITECTURE.md says.
//!
//! The test lives with the program because that is the end of the chain: it is
//! built whenever anything is.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::process::Command;

use serde_json::Value;

/// Each crate with those it may know. A crate that is not here yet has its place already.
const MAY_DEPEND_ON: [(&str, &[&str]); 7] = [
    ("tollgate-core", &[]),
    ("tollgate-policy", &["tollgate-core"]),
    ("tollgate-store", &["tollgate-core"]),
    ("tollgate", &["tollgate-core", "tollgate-policy", "tollgate-store"]),
    ("tollgate-workbench", &["tollgate-core", "tollgate-policy", "tollgate-store", "tollgate"]),
    ("tollgate-server", &["tollgate-core", "tollgate-policy", "tollgate-store", "tollgate"]),
    (
        "tollgate-cli",
        &["tollgate-core", "tollgate-policy", "tollgate-store", "tollgate", "tollgate-workbench", "tollgate-server"],
    ),
];

/// Measures everything and is used by nobody.
const BENCH: &str = "tollgate-bench";

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

#[test]
fn crates_depend_only_on_those_below_them() {
    let packages = packages();
    let names: Vec<&str> = packages.iter().map(name).collect();
    for package in packages.iter().filter(|package| name(package) != BENCH) {
        let place = MAY_DEPEND_ON.iter().find(|(crate_name, _)| *crate_name == name(package));
        let (_, allowed) = place.unwrap_or_else(|| panic!("{} has no place in the order yet", name(package)));
        for dependency in dependencies(package).iter().map(name).filter(|dependency| names.contains(dependency)) {
            assert!(allowed.contains(&dependency), "{} must not depend on {dependency}", name(package));
        }
    }
}

#[test]
fn the_core_depends_on_nothing() {
    let packages = packages();
    let core = packages.iter().find(|package| name(package) == "tollgate-core").unwrap();
    // What only its tests use has a kind; what it is built with has none.
    let built_with: Vec<&str> =
        dependencies(core).iter().filter(|dependency| dependency["kind"].is_null()).map(name).collect();
    assert!(built_with.is_empty(), "{built_with:?}");
}

#[test]
fn the_benchmarks_are_not_published() {
    let packages = packages();
    let bench = packages.iter().find(|package| name(package) == BENCH).unwrap();
    assert_eq!(bench["publish"], serde_json::json!([]));
}
