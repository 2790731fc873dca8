//! Hostile policy files: all are refused quickly.

#![cfg(feature = "yaml")]
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tollgate_policy::{Report, parse};

/// Far more than the reader needs, also in a slow debug build, and far less than a stuck reader takes.
const TIME_MAX: Duration = Duration::from_secs(5);

fn refused(text: &str) -> Report {
    let started = Instant::now();
    let report = parse(text, "hostile.yaml", None).expect_err("refused");
    let shown = report.to_string();
    assert!(started.elapsed() < TIME_MAX, "took {:?}", started.elapsed());
    assert!(shown.len() < 100_000, "{} bytes", shown.len());
    report
}

fn codes(report: &Report) -> Vec<&str> {
    report.errors.iter().map(|error| error.code).collect()
}

#[test]
fn large_file_is_refused() {
    assert_eq!(codes(&refused(&"rules: [a]\n".repeat(1_000_000))), ["file-too-large"]);
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("[", "")] {
        let text = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        assert_eq!(codes(&refused(&text)), ["too-deep"], "{open}");
    }
    let lines: String = (0..2_000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    assert_eq!(codes(&refused(&lines)), ["too-deep"]);
}

#[test]
fn deep_nesting_by_aliases_is_refused() {
    let mut text = "version: 1\na0: &a0 [x]\n".to_owned();
    for level in 1..100 {
        text.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert_eq!(codes(&refused(&text)), ["too-deep"]);
}

#[test]
fn billion_laughs_is_refused() {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..20 {
        let repeated = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{repeated}]\n"));
    }
    assert_eq!(codes(&refused(&text)), ["too-many-values"]);
}

#[test]
fn recursive_alias_is_refused() {
    assert_eq!(codes(&refused("a: &a [*a]\n")), ["syntax"]);
}

#[test]
fn errors_of_many_unknown_members_are_bounded() {
    let text: String = (0..20_000).map(|at| format!("x{at}: 1\n")).collect();
    let report = refused(&text);
    assert_eq!(report.errors.len(), 100);
}

#[test]
fn errors_of_many_unknown_identities_are_bounded() {
    let identities: String = (0..2_000).map(|at| format!("  a{at}: {{ first: [b{at}] }}\n")).collect();
    let report = refused(&format!("version: 1\nidentity:\n{identities}"));
    assert_eq!(report.errors.len(), 100);
}

#[test]
fn cycle_after_a_long_chain_of_first_is_refused() {
    let chain: String = (0..5_000).map(|at| format!("  a{at}: {{ first: [a{}] }}\n", at + 1)).collect();
    let text = format!("version: 1\nidentity:\n{chain}  a5000: {{ first: [a4999] }}\n");
    assert_eq!(codes(&refused(&text)), ["circular-first"]);
}

#[test]
fn warnings_of_a_large_policy_are_found_quickly() {
    let many = |count: usize, item: fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(", ");
    let identities: String = (0..30)
        .map(|at| {
            let next = if at < 29 { format!("a{}, ", at + 1).repeat(20) } else { "leaf".to_owned() };
            format!("  a{at}: {{ first: [{}] }}\n", next.trim_end_matches(", "))
        })
        .collect();
    let texts = many(2_000, |at| format!("t{at}"));
    let text = format!(
        "version: 1\nidentity:\n{identities}  leaf: {{ header: X-Leaf, trusted: true }}\n  tier: {{ by: leaf, map: {{ {} }}, default: d }}\n\
         deny: {{ leaf: [{texts}] }}\nallow: {{ leaf: [{texts}] }}\n\
         rules: [{}]\n",
        many(2_000, |at| format!("k{at}: m{at}")),
        many(200, |at| format!(
            "{{ name: r{at}, key: a0, limit: 1/s, when: {{ method: [GET, POST], identity: {{ tier: [x, y], method: ['P*'] }} }} }}"
        )),
    );
    let started = Instant::now();
    let loaded = parse(&text, "hostile.yaml", None).unwrap_or_else(|report| panic!("{report}"));
    assert!(started.elapsed() < TIME_MAX, "took {:?}", started.elapsed());
    assert!(loaded.warnings.iter().any(|warning| warning.code == "limits-can-be-avoided"));
    assert!(loaded.warnings.len() <= 200);
}

#[test]
fn messages_have_short_lines_and_no_control_characters() {
    let text = format!("version: 1\nrules: [{}\u{1b}[2J{}]\n", "a, ".repeat(10_000), "b, ".repeat(10_000));
    let report = refused(&text);
    let shown = report.to_string();
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert!(shown.lines().all(|line| line.chars().count() < 400));
}

#[test]
fn hints_have_no_control_characters() {
    let text =
        "version: 1\nidentity: { \"use\\u0005\": { peer: true } }\nrules: [{ name: a, key: user, limit: 1/s }]\n";
    let shown = refused(text).to_string();
    assert!(shown.contains("did you mean"), "{shown}");
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
}

/// The parser reports a position far beyond the end of such a text.
#[test]
fn directive_of_unusual_characters_is_refused() {
    for length in [1, 5, 100] {
        let text = format!("%ve{}: 0,{}\nlimit: 60/min", "\u{fffd}".repeat(length), "3\u{fffd}".repeat(length));
        assert_eq!(codes(&refused(&text)), ["syntax"], "{length}");
    }
}

#[test]
fn empty_files_are_refused() {
    for text in ["", "\n", "---\n", "---\n...\n", "\u{feff}", "null", "~", "# a comment"] {
        assert_eq!(codes(&refused(text)), ["empty-file"], "{text:?}");
    }
}
