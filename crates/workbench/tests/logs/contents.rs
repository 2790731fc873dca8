//! Compression, line ends, long lines, bytes that are not text.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tollgate_workbench::log::{LogError, LogOptions};

use crate::reading::{LogFiles, error_of, line, read, second_and_target};

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &str) -> Vec<u8> {
    // With a checksum, as the command line writes it.
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Lines with targets from /0 on.
fn lines(count: u64) -> String {
    (0..count).map(|number| line(number / 100, &format!("/{number}"))).collect()
}

#[test]
fn compressed_logs_are_read_by_content() {
    let (plain, _) = read([lines(5_000)]);
    assert_eq!(plain.len(), 5_000);
    for compress in [gzip, zstd] {
        assert_eq!(read([compress(&lines(5_000))]).0, plain);
    }
}

#[test]
fn several_members_and_frames_are_read() {
    let text = lines(3_000);
    // The cut is within a line.
    let (first, second) = text.split_at(text.len() / 2);
    for compress in [gzip, zstd] {
        let (records, summary) = read([[compress(first), compress(second)].concat()]);
        assert_eq!((records.len(), summary.unreadable), (3_000, 0));
        assert_eq!(summary.bytes, text.len() as u64);
    }
}

#[test]
fn damaged_compression_is_an_error() {
    for compress in [gzip, zstd] {
        let whole = compress(&lines(50_000));
        let error = error_of(&whole[..whole.len() / 2]);
        assert!(matches!(error, LogError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("0.log") && error.hint().unwrap().contains("-dc"), "{error}");
        let mut flipped = whole.clone();
        flipped[whole.len() / 2..][..64].fill(0x55);
        let error = error_of(&flipped);
        assert!(matches!(error, LogError::Damaged { .. }), "{error}");
    }
}

#[test]
fn line_ends_of_windows_and_empty_lines_are_tolerated() {
    let text = format!("\n{}\r\n\n  \n", (line(1, "/a") + &line(2, "/b")).replace('\n', "\r\n"));
    let (records, summary) = read([text]);
    assert_eq!((records.len(), summary.lines, summary.unreadable), (2, 2, 0));
}

#[test]
fn the_last_line_needs_no_end() {
    let (records, summary) = read([line(1, "/a") + line(2, "/b").trim_end()]);
    assert_eq!((records.len(), summary.lines), (2, 2));
}

#[test]
fn lines_beyond_64_kib_are_unreadable_and_the_rest_is_read() {
    for length in [65_537, 70_000, 300_000, 3_000_000] {
        let text = line(1, "/a") + &"x".repeat(length) + "\n" + &line(2, "/b") + &"y".repeat(length);
        for block_bytes in [1_000, 262_144] {
            let options = LogOptions { block_bytes, ..LogOptions::default() };
            let (records, summary) = LogFiles::new([&text]).read(&options).unwrap();
            assert_eq!((records.len(), summary.lines, summary.unreadable), (2, 4, 2), "{length}");
            let examples: Vec<_> = summary.examples.iter().map(|example| (example.line, example.reason)).collect();
            let reason = "the line is longer than 64 KiB";
            assert_eq!(examples, [(2, reason), (4, reason)], "{length}, {block_bytes}");
            assert!(summary.examples[0].text.len() < 200);
        }
    }
}

#[test]
fn a_line_of_64_kib_is_read() {
    let shortest = line(1, "/").len() - 1;
    let target = format!("/{}", "x".repeat((64 << 10) - shortest));
    let (records, _) = read([line(1, &target)]);
    assert_eq!(records[0].target, target);
}

#[test]
fn bytes_that_are_not_utf_8_are_replaced() {
    let mut text = line(1, "/caf?/é").into_bytes();
    let at = text.iter().position(|byte| *byte == b'?').unwrap();
    text[at] = 0xe9;
    let (records, _) = read([text]);
    assert_eq!(records[0].target, "/caf\u{1a}/é");
}

#[test]
fn nul_bytes_make_at_most_their_line_unreadable() {
    let text = format!("{}{}{}{}", "\0".repeat(200_000), line(1, "/a"), line(2, "/\0b"), line(3, "/c"));
    let (records, summary) = read([line(0, "/first") + &text]);
    let targets: Vec<_> = records.iter().map(second_and_target).collect();
    assert_eq!(targets, [(0, "/first".to_owned()), (2, "/\0b".to_owned()), (3, "/c".to_owned())]);
    assert_eq!(summary.unreadable, 1);
}

#[test]
fn deeply_nested_json_is_skipped() {
    let depth = 8_000;
    let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let start = "{\"ts\":1794821400,\"request\":{\"client_ip\":\"192.0.2.1\"}";
    let log = [
        format!("{start},\"tls\":{}}}\n", nested("[", "]")),
        format!("{start},\"request\":{}}}\n", nested("{\"a\":", "}")),
        format!("{start},\"request\":{}}}\n", "{\"request\":".repeat(5_000)),
        format!("{start}}}\n"),
    ];
    let (records, summary) = read([log.concat()]);
    assert_eq!((records.len(), summary.unreadable), (3, 1), "{:?}", summary.examples);
}
