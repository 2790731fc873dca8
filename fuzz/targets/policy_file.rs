//! Reading any text as a policy never panics, and each diagnostic can be displayed, has a position within the text and
//! contains no control characters.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_policy::{Diagnostic, ERROR_CODES, NOTE_CODES, WARNING_CODES, parse};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match parse(&text, "fuzzed.yaml", None) {
        Ok(loaded) => {
            loaded.warnings.iter().for_each(|warning| check(warning, WARNING_CODES, &text));
            loaded.notes.iter().for_each(|note| check(note, NOTE_CODES, &text));
            let problems = loaded.policy.warnings();
            assert_eq!(problems.len(), loaded.warnings.len());
            assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
        }
        Err(report) => {
            assert!(!report.errors.is_empty(), "refused without a reason: {text:?}");
            report.errors.iter().for_each(|error| check(error, ERROR_CODES, &text));
            report.warnings.iter().for_each(|warning| check(warning, WARNING_CODES, &text));
            assert!(!report.to_string().is_empty());
        }
    }
});

fn check(diagnostic: &Diagnostic, codes: &[&str], text: &str) {
    assert!(codes.contains(&diagnostic.code), "{}", diagnostic.code);
    assert!(diagnostic.line >= 1 && diagnostic.column >= 1 && diagnostic.width >= 1, "{diagnostic:?}");
    let lines = 1 + text.matches(['\n', '\r']).count();
    assert!(diagnostic.line <= lines, "line {} of {lines}: {text:?}", diagnostic.line);
    let shown = diagnostic.to_string();
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert!(shown.lines().all(|line| line.chars().count() < 2_000), "{shown}");
}
