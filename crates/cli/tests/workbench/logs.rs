//! Logs that cannot be read, or only in part: clear words, and exit codes.

use crate::program::Folder;

const LINE: &str = "203.0.113.9 - - [01/Jan/2026:00:00:01 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\"\n";

/// Asserts that every command fails to read a log, with the same words.
fn assert_all_fail(folder: &Folder, log: &[&str], shown: &[&str]) {
    folder.write("policy.yaml", "version: 1\nrules: [ { name: r, key: client_ip, limit: 1/min } ]\n");
    for command in [&["simulate", "policy.yaml"][..], &["compare", "--limit", "1/min"], &["calibrate"]] {
        folder.run(&[command, log].concat()).assert_fails(3, shown);
    }
}

#[test]
fn missing_log_is_a_failure() {
    assert_all_fail(&Folder::empty(), &["--log", "missing.log"], &["error: missing.log: the log cannot be opened"]);
}

#[test]
fn empty_log_is_a_failure() {
    let folder = Folder::empty();
    folder.write("empty.log", "");
    assert_all_fail(&folder, &["--log", "empty.log"], &["error: empty.log: ", "hint: "]);
}

#[test]
fn binary_file_is_a_failure() {
    let folder = Folder::empty();
    folder.write("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    assert_all_fail(&folder, &["--log", "image.png"], &["error: image.png", "hint: "]);
}

#[test]
fn folder_is_a_failure() {
    assert_all_fail(&Folder::empty(), &["--log", "."], &["error: . is a directory: expected a log"]);
}

#[test]
fn wrong_format_is_a_failure() {
    let folder = Folder::empty();
    folder.write("access.log", LINE.repeat(5));
    let shown = ["5 of the first 5 lines are not in the format alb"];
    assert_all_fail(&folder, &["--log", "access.log", "--log-format", "alb"], &shown);
}

#[test]
fn unreadable_lines_are_counted_and_shown() {
    let folder = Folder::empty();
    folder.write("access.log", format!("{}broken line\n{LINE}", LINE.repeat(50)));
    let run = folder.run(&["compare", "--limit", "1/min", "--log", "access.log", "--format", "json"]);
    assert_eq!(run.json()["requests"], 51);
    let warning = "tollgate: warning: 1 of 52 lines could not be read and are left out\ntollgate:   access.log:51: ";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
}

#[test]
fn clock_that_jumps_back_is_reported_and_refills_nothing() {
    let folder = Folder::empty();
    folder.write("policy.yaml", "version: 1\nrules: [ { name: r, key: client_ip, limit: 1/h } ]\n");
    let late = LINE.replace("00:00:01", "09:00:00");
    folder.write("access.log", format!("{late}{LINE}{LINE}{late}"));
    let run = folder.run(&["simulate", "policy.yaml", "--log", "access.log", "--format", "json"]);
    let answer = run.json();
    assert_eq!((&answer["allowed"], &answer["refused"]), (&1.into(), &3.into()));
    assert!(run.stderr.contains("2 requests too far out of order"), "{}", run.stderr);
    assert!(run.stderr.contains("access.log:2: from 2026-01-01T09:00:00Z to 2026-01-01T00:00:01Z"), "{}", run.stderr);
}
