//! Rust code in pages: `examples/guide` compiles and runs it as documentation tests.

const DOCUMENTATION_TESTS: &str = include_str!("../../../../examples/guide/src/lib.rs");
const MANIFEST: &str = include_str!("../../../tollgate/Cargo.toml");

/// Whether the Rust code of the page is compiled and run.
pub(crate) fn has_page(page: &str) -> bool {
    DOCUMENTATION_TESTS.contains(&format!("include_str!(\"../../../{page}\")"))
}

/// Checks that the crate has the features that a `Cargo.toml` of a page enables.
pub(crate) fn check_features(toml: &str) -> Result<(), String> {
    let declared = MANIFEST.split("[features]").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
    let enabled =
        toml.lines().filter(|line| line.starts_with("tollgate")).filter_map(|line| line.split_once("features = ["));
    for (_, features) in enabled {
        for feature in features.split(']').next().unwrap_or_default().split(',') {
            let feature = feature.trim().trim_matches('"');
            if !declared.contains(&format!("\n{feature} = ")) {
                return Err(format!("tollgate has no feature {feature:?}"));
            }
        }
    }
    Ok(())
}
