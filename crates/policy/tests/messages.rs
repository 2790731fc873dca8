//! Compares every message with its fixture. `UPDATE_MESSAGES=1 cargo test -p tollgate-policy --all-features
//! --test messages` rewrites the fixtures; review the changes.

#![cfg(all(feature = "yaml", feature = "jwt"))]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_policy::{Diagnostic, ERROR_CODES, NOTE_CODES, WARNING_CODES, parse};

const UPDATE: &str = "UPDATE_MESSAGES";

fn fixtures(kind: &str) -> PathBuf {
    // Relative, so that messages that name a file are the same everywhere.
    Path::new("tests/fixtures").join(kind)
}

/// The names of the fixtures of a code, without extension: `CODE`, and `CODE+CASE` for further cases.
fn cases(kind: &str, code: &str) -> Vec<String> {
    let mut cases = vec![code.to_owned()];
    for entry in fs::read_dir(fixtures(kind)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(case) = name.strip_suffix(".yaml").filter(|name| name.starts_with(&format!("{code}+"))) {
            cases.push(case.to_owned());
        }
    }
    cases.sort();
    cases
}

/// The text of a fixture. The one about size is generated.
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
fn error_messages_match_their_fixtures() {
    let mut different = Vec::new();
    // Only a program without the feature `jwt` reports that one; see `without_jwt.rs`.
    for code in ERROR_CODES.iter().filter(|code| **code != "jwt-not-built") {
        for case in cases("errors", code) {
            let text = fixture("errors", &case);
            let report = parse(&text, &format!("{case}.yaml"), Some(&fixtures("errors"))).expect_err(&case);
            let codes: Vec<&str> = report.errors.iter().map(|error| error.code).collect();
            assert!(codes.contains(code), "{case} causes {codes:?}");
            assert!(codes.iter().all(|other| other == code), "{case} causes other errors too: {report}");
            compare("errors", &case, &text_of(&report.errors), &mut different);
        }
    }
    assert_same(&different);
}

#[test]
fn warning_messages_match_their_fixtures() {
    let mut different = Vec::new();
    for code in WARNING_CODES {
        for case in cases("warnings", code) {
            let text = fixture("warnings", &case);
            let loaded = parse(&text, &format!("{case}.yaml"), Some(&fixtures("warnings")));
            let loaded = loaded.unwrap_or_else(|report| panic!("{case}: {report}"));
            let codes: Vec<&str> = loaded.warnings.iter().map(|warning| warning.code).collect();
            assert!(codes.contains(code), "{case} causes {codes:?}");
            let own: Vec<Diagnostic> = loaded.warnings.into_iter().filter(|warning| warning.code == *code).collect();
            compare("warnings", &case, &text_of(&own), &mut different);
        }
    }
    assert_same(&different);
}

#[test]
fn note_messages_match_their_fixtures() {
    let mut different = Vec::new();
    for code in NOTE_CODES {
        let text = fixture("notes", code);
        let loaded = parse(&text, &format!("{code}.yaml"), Some(&fixtures("notes")));
        let loaded = loaded.unwrap_or_else(|report| panic!("{code}: {report}"));
        assert!(loaded.notes.iter().all(|note| note.code == *code), "{code} draws {:?}", loaded.notes);
        compare("notes", code, &text_of(&loaded.notes), &mut different);
    }
    assert_same(&different);
}

#[test]
fn warning_that_follows_from_an_error_is_omitted() {
    let rule = |members: &str| {
        let text = format!(
            "version: 1\nbudgets: {{ tokens: {{ key: client_ip, limit: 100/min }} }}\n\
             rules: [{{ name: a, budget: tokens, cost: 2 }}, {{ name: b, {members} }}]\n"
        );
        let report = parse(&text, "policy", None).unwrap_err();
        let codes = |list: &[Diagnostic]| list.iter().map(|one| one.code).collect::<Vec<_>>();
        (codes(&report.errors), codes(&report.warnings))
    };
    assert_eq!(rule("budget: tokenz"), (vec!["unknown-budget"], vec![]));
    assert_eq!(rule("key: client_ip, limit: 5/min, cost: 50"), (vec!["cost-never-fits"], vec![]));
    let other = "unlimited: true }, { name: c, budget: tokenz";
    assert_eq!(rule(other), (vec!["unknown-budget"], vec!["unlimited-for-all"]));
    let text = "version: 1\nbudgets: { tokens: { key: client_ip, limit: 100/min } }\n\
                rules: [{ name: a, budget: tokens, shadow: true }]\n";
    let report = parse(text, "policy", None).unwrap_err();
    assert_eq!((report.errors[0].code, report.warnings.first()), ("misplaced-member", None));
}

#[test]
fn each_fixture_belongs_to_a_code() {
    for (kind, codes) in [("errors", ERROR_CODES), ("warnings", WARNING_CODES), ("notes", NOTE_CODES)] {
        for entry in fs::read_dir(fixtures(kind)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            // `CODE+CASE.yaml` is a further case of a code.
            let name = name.split('+').next().unwrap();
            assert!(codes.contains(&name), "{} belongs to no code", path.display());
        }
    }
}

#[test]
fn each_code_is_documented_once() {
    let page = fs::read_to_string("../../docs/policy-messages.md").unwrap();
    let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    for code in ERROR_CODES.iter().chain(WARNING_CODES).chain(NOTE_CODES) {
        assert_eq!(headings.iter().filter(|heading| *heading == code).count(), 1, "docs/policy-messages.md on {code}");
    }
    for heading in headings {
        let is_code = [ERROR_CODES, WARNING_CODES, NOTE_CODES].iter().any(|codes| codes.contains(&heading));
        assert!(is_code, "{heading} is not a code");
    }
}

#[test]
fn codes_are_unique() {
    let mut all: Vec<&str> = ERROR_CODES.iter().chain(WARNING_CODES).chain(NOTE_CODES).copied().collect();
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
}
