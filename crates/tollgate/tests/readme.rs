//! What the README shows of Rust is what is tested.

/// The lines that a reader sees of each block of Rust code.
fn examples(text: &str, fence: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines().map(|line| line.trim_start_matches("//!").trim());
    let mut examples = Vec::new();
    while lines.any(|line| line == fence) {
        let block = lines.by_ref().take_while(|line| *line != "```").filter(|line| !line.starts_with("# "));
        examples.push(block.map(str::to_owned).collect());
    }
    examples
}

#[test]
fn the_readme_shows_the_tested_example() {
    let documented = examples(include_str!("../src/lib.rs"), "```");
    let shown = examples(include_str!("../../../README.md"), "```rust");
    assert_eq!(shown.len(), 2, "the README has two examples: the layer, and a limiter that is asked directly");
    assert_eq!(shown[1], documented[0]);
}

#[test]
fn the_readme_shows_what_the_example_does() {
    let shown = &examples(include_str!("../../../README.md"), "```rust")[0];
    let example = include_str!("../../../examples/axum-hello/src/lib.rs");
    for piece in [
        "Limiter::builder().rule(rule(\"per-ip\").per(\"client_ip\").limit(",
        "layer(limiter.layer())",
        "into_make_service_with_connect_info::<SocketAddr>()",
    ] {
        assert!(example.contains(piece) && shown.iter().any(|line| line.contains(piece)), "{piece}");
    }
}
