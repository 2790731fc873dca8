//! The README shows the example that the crate's documentation tests.

/// The lines that a reader sees of the first block of Rust code.
fn first_example(text: &str, fence: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.trim_start_matches("//!").trim())
        .skip_while(|line| *line != fence)
        .skip(1)
        .take_while(|line| *line != "```")
        .filter(|line| !line.starts_with("# "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_readme_shows_the_tested_example() {
    let documented = first_example(include_str!("../src/lib.rs"), "```");
    let shown = first_example(include_str!("../../../README.md"), "```rust");
    assert!(!documented.is_empty());
    assert_eq!(shown, documented);
}
