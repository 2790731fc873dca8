//! Files that are made to hurt: all are refused, and quickly.

#![cfg(feature = "yaml")]
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tollgate_policy::{Report, parse};

/// Far above what it takes, far below what a stuck reader takes; debug builds are slow.
const QUICKLY: Duration = Duration::from_secs(2);

fn refused(text: &str) -> Report {
    let started = Instant::now();
    let report = parse(text, "hostile.yaml", None).expect_err("refused");
    let shown = report.to_string();
    assert!(started.elapsed() < QUICKLY, "took {:?}", started.elapsed());
    assert!(shown.len() < 100_000, "{} bytes", shown.len());
    report
}

fn codes(report: &Report) -> Vec<&str> {
    report.errors.iter().map(|error| error.code).collect()
}

#[test]
fn a_large_file() {
    assert_eq!(codes(&refused(&"rules: [a]\n".repeat(1_000_000))), ["file-too-large"]);
}

#[test]
fn deep_nesting() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("[", "")] {
        let text = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        assert_eq!(codes(&refused(&text)), ["too-deep"], "{open}");
    }
    let lines: String = (0..2_000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    assert_eq!(codes(&refused(&lines)), ["too-deep"]);
}

#[test]
fn nesting_by_aliases() {
    let mut text = "version: 1\na0: &a0 [x]\n".to_owned();
    for level in 1..100 {
        text.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert_eq!(codes(&refused(&text)), ["too-deep"]);
}

#[test]
fn a_billion_laughs() {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..20 {
        let repeated = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{repeated}]\n"));
    }
    assert_eq!(codes(&refused(&text)), ["too-many-values"]);
}

#[test]
fn an_alias_to_what_surrounds_it() {
    assert_eq!(codes(&refused("a: &a [*a]\n")), ["syntax"]);
}

#[test]
fn unknown_members_without_end() {
    let text: String = (0..20_000).map(|at| format!("x{at}: 1\n")).collect();
    let report = refused(&text);
    assert_eq!(report.errors.len(), 100);
}

#[test]
fn unknown_identities_without_end() {
    let identities: String = (0..2_000).map(|at| format!("  a{at}: {{ first: [b{at}] }}\n")).collect();
    let report = refused(&format!("version: 1\nidentity:\n{identities}"));
    assert_eq!(report.errors.len(), 100);
}

#[test]
fn a_long_chain_of_first_and_a_circle_at_its_end() {
    let chain: String = (0..5_000).map(|at| format!("  a{at}: {{ first: [a{}] }}\n", at + 1)).collect();
    let text = format!("version: 1\nidentity:\n{chain}  a5000: {{ first: [a4999] }}\n");
    assert_eq!(codes(&refused(&text)), ["circular-first"]);
}

#[test]
fn long_lines_and_control_characters() {
    let text = format!("version: 1\nrules: [{}\u{1b}[2J{}]\n", "a, ".repeat(10_000), "b, ".repeat(10_000));
    let report = refused(&text);
    let shown = report.to_string();
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert!(shown.lines().all(|line| line.chars().count() < 400));
}

#[test]
fn nothing_at_all() {
    for text in ["", "\n", "---\n", "---\n...\n", "\u{feff}", "null", "~", "# a comment"] {
        assert_eq!(codes(&refused(text)), ["empty-file"], "{text:?}");
    }
}
