//! Every message, as it is printed. `UPDATE_MESSAGES=1 cargo test -p tollgate-policy --all-features
//! --test messages` writes them anew; read what changed.

#![cfg(all(feature = "yaml", feature = "jwt"))]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_policy::{Diagnostic, ERROR_CODES, WARNING_CODES, parse};

const UPDATE: &str = "UPDATE_MESSAGES";

fn fixtures(kind: &str) -> PathBuf {
    // Relative, so that messages that name a file are the same everywhere.
    Path::new("tests/fixtures").join(kind)
}

/// What a code's file says; the one about size is made here.
fn fixture(kind: &str, code: &str) -> String {
    if code == "file-too-large" {
        return "# a long comment\n".repeat(300_000);
    }
    let path = fixtures(kind).join(format!("{code}.yaml"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{code} has no fixture {}: {error}", path.display()))
}

fn compare(kind: &str, code: &str, shown: &str, different: &mut Vec<String>) {
    let path = fixtures(kind).join(format!("{code}.txt"));
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, shown).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if expected != shown {
        different.push(format!("== {}\n-- expected\n{expected}-- found\n{shown}", path.display()));
    }
}

fn text_of(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|diagnostic| format!("{diagnostic}\n")).collect::<Vec<_>>().join("\n")
}

fn assert_same(different: &[String]) {
    assert!(different.is_empty(), "{}\nif this is right, run again with {UPDATE}=1", different.join("\n"));
}

#[test]
fn every_error_reads_as_it_should() {
    let mut different = Vec::new();
    // That one only a program without the feature `jwt` says; see `without_jwt.rs`.
    for code in ERROR_CODES.iter().filter(|code| **code != "jwt-not-built") {
        let text = fixture("errors", code);
        let report = parse(&text, &format!("{code}.yaml"), Some(&fixtures("errors"))).expect_err(code);
        let codes: Vec<&str> = report.errors.iter().map(|error| error.code).collect();
        assert!(codes.contains(code), "{code} draws {codes:?}");
        assert!(codes.iter().all(|other| other == code), "{code} draws others too: {report}");
        compare("errors", code, &text_of(&report.errors), &mut different);
    }
    assert_same(&different);
}

#[test]
fn every_warning_reads_as_it_should() {
    let mut different = Vec::new();
    for code in WARNING_CODES {
        let text = fixture("warnings", code);
        let loaded = parse(&text, &format!("{code}.yaml"), Some(&fixtures("warnings")));
        let loaded = loaded.unwrap_or_else(|report| panic!("{code}: {report}"));
        let codes: Vec<&str> = loaded.warnings.iter().map(|warning| warning.code).collect();
        assert!(codes.contains(code), "{code} draws {codes:?}");
        let own: Vec<Diagnostic> = loaded.warnings.into_iter().filter(|warning| warning.code == *code).collect();
        compare("warnings", code, &text_of(&own), &mut different);
    }
    assert_same(&different);
}

#[test]
fn every_fixture_has_a_code() {
    for (kind, codes) in [("errors", ERROR_CODES), ("warnings", WARNING_CODES)] {
        for entry in fs::read_dir(fixtures(kind)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(codes.contains(&name), "{} belongs to no code", path.display());
        }
    }
}

#[test]
fn every_code_is_explained() {
    let page = fs::read_to_string("../../docs/policy-messages.md").unwrap();
    let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    for code in ERROR_CODES.iter().chain(WARNING_CODES) {
        assert_eq!(headings.iter().filter(|heading| *heading == code).count(), 1, "docs/policy-messages.md on {code}");
    }
    for heading in headings {
        assert!(ERROR_CODES.contains(&heading) || WARNING_CODES.contains(&heading), "{heading} is no code");
    }
}

#[test]
fn codes_are_unique() {
    let mut all: Vec<&str> = ERROR_CODES.iter().chain(WARNING_CODES).copied().collect();
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
}
