//! What is not a log has an error that names it and hints at the repair.

use tollgate_workbench::log::{LogError, LogFormat, LogOptions, LogSource, read_logs};

use crate::reading::{LogFiles, error_of, line, read};

fn error_for(sources: &[LogSource]) -> LogError {
    read_logs(sources, &LogOptions::default(), &(), &mut |_| {}).unwrap_err()
}

#[test]
fn paths_that_are_not_files_are_rejected() {
    let files = LogFiles::new([""]);
    let missing = error_for(&[LogSource::File(files.path("missing.log"))]);
    assert!(missing.to_string().contains("missing.log: the log cannot be opened"), "{missing}");
    assert_eq!(missing.hint().as_deref(), Some("check the path; `-` reads stdin"));
    let directory = error_for(&[LogSource::File(files.path(""))]);
    assert!(matches!(directory, LogError::Directory { .. }), "{directory}");
    assert!(directory.hint().unwrap().ends_with("/*.log"));
}

#[test]
fn no_logs_and_stdin_twice_are_rejected() {
    assert!(matches!(error_for(&[]), LogError::NoLogs));
    assert!(matches!(error_for(&[LogSource::Stdin, LogSource::Stdin]), LogError::StdinTwice));
}

#[test]
fn logs_without_lines_are_rejected_only_if_all_are() {
    for empty in ["", "\n\n", "\u{feff}"] {
        let error = error_of(empty);
        assert!(matches!(error, LogError::Empty { .. }), "{error}");
    }
    let (records, summary) = read([String::new(), line(1, "/a")]);
    assert_eq!((records.len(), summary.logs.len()), (1, 2));
}

#[test]
fn binary_files_are_rejected_with_the_command_that_reads_them() {
    for (content, what, hint) in [
        (b"\xfd7zXZ\0\0\x04".to_vec(), "xz data", "xz -dc"),
        (b"\x7fELF\x02\x01\x01\0\x03\x04\x05\x06\x07\x01\x02".to_vec(), "binary data", "logs are text"),
        (b"\xff\xfeh\0i\0".to_vec(), "UTF-16 text", "iconv -f UTF-16"),
    ] {
        let error = error_of(content);
        assert!(error.to_string().ends_with(&format!("is not a text log: it contains {what}")), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{:?}", error.hint());
    }
}

#[test]
fn unknown_formats_are_rejected_with_the_first_line_and_all_names() {
    let error = error_of("\nNov 16 09:30:00 host sshd[1]: \x1b[31mAccepted\n");
    assert!(error.to_string().ends_with(r"line 2 is: Nov 16 09:30:00 host sshd[1]: \x1b[31mAccepted"), "{error}");
    for format in LogFormat::ALL {
        assert!(error.hint().unwrap().contains(format.name()), "{:?}", error.hint());
    }
}

#[test]
fn a_wrong_format_is_rejected_with_the_first_wrong_line() {
    let files = LogFiles::new([line(1, "/a")]);
    for format in [LogFormat::NginxJson, LogFormat::EnvoyJson, LogFormat::Alb, LogFormat::Events] {
        let error = files.read(&LogOptions { format, ..LogOptions::default() }).unwrap_err();
        let expected = format!("1 of the first 1 lines are not in the format {format}; line 1: ");
        assert!(error.to_string().contains(&expected), "{error}");
        assert!(error.hint().unwrap().contains("--log-format"));
    }
}

#[test]
fn wrong_lines_are_shown_as_they_are() {
    let line = r#"{"X_Key":"a\u0041","ClientHost":"192.0.2.1"}"#;
    let error = LogFiles::new([line]).read(&LogOptions { format: LogFormat::EnvoyJson, ..LogOptions::default() });
    assert!(error.unwrap_err().to_string().ends_with(&line.replace('\\', "\\\\")));
}

#[test]
fn csv_without_a_time_is_rejected_with_its_first_line() {
    let files = LogFiles::new(["ip,path\n192.0.2.1,/\n"]);
    let error = files.read(&LogOptions { format: LogFormat::Csv, ..LogOptions::default() }).unwrap_err();
    assert!(error.to_string().ends_with("no column is the time; the first line is: ip,path"), "{error}");
    assert!(error.hint().unwrap().contains("time,ip,user"));
}

#[test]
fn half_of_the_lines_may_be_unreadable() {
    let (records, summary) = read([line(1, "/a") + "noise\n"]);
    assert_eq!((records.len(), summary.unreadable), (1, 1));
    assert!(matches!(error_of(line(1, "/a") + "noise\nnoise\n"), LogError::UnknownFormat { .. }));
}

#[test]
fn a_log_whose_rest_is_unreadable_is_rejected_with_the_first_wrong_line() {
    // More than the beginning in which the format is detected.
    let beginning = line(1, "/a").repeat(2_000);
    let error = error_of(beginning.clone() + &"noise\n".repeat(2_001));
    let expected = "2001 of 4001 lines are not in the format combined, first line 2001: expected an address";
    assert!(error.to_string().contains(expected), "{error}");
    assert!(error.hint().unwrap().contains("separate files"));
    let (records, summary) = read([beginning + &"noise\n".repeat(2_000)]);
    assert_eq!((records.len(), summary.unreadable), (2_000, 2_000));
}
