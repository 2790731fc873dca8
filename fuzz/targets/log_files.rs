//! Any files are read in time order or rejected, with the same result for any number of threads and any size of
//! blocks.
//!
//! The first byte is the size of blocks. The rest is up to three files, separated by `\n---\n`.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tollgate_workbench::log::{LogOptions, fuzzing};

/// Compressed input of this length has at most some hundred megabytes of text.
const INPUT_BYTES_MAX: usize = 2_048;

fuzz_target!(|data: &[u8]| {
    let Some((&size, files)) = data.split_first() else { return };
    if files.len() > INPUT_BYTES_MAX {
        return;
    }
    let files = split(files);
    let out_of_order = Duration::from_secs(u64::from(size % 16));
    let options = LogOptions { out_of_order, threads: 1, ..LogOptions::default() };
    let other = LogOptions { threads: 2, block_bytes: 1 + usize::from(size) * 8, ..options.clone() };
    let (records, summary) = match (fuzzing::read_bytes(&files, &options), fuzzing::read_bytes(&files, &other)) {
        (Ok(read), Ok(again)) => {
            assert_eq!(read, again);
            read
        }
        (Err(error), Err(again)) => {
            assert_eq!(error.to_string(), again.to_string());
            return;
        }
        (first, second) => panic!("{:?}, but with other blocks {:?}", first.map(|_| ()), second.map(|_| ())),
    };
    assert!(records.is_sorted_by_key(|(time_ns, _)| *time_ns));
    assert_eq!(summary.lines, summary.unreadable + records.len() as u64);
    if let (Some(first), Some(last)) = (records.first(), records.last()) {
        assert_eq!((summary.first_ns, summary.last_ns), (first.0, last.0));
    }
});

fn split(mut files: &[u8]) -> Vec<&[u8]> {
    const SEPARATOR: &[u8] = b"\n---\n";
    let mut split = Vec::new();
    while split.len() < 2
        && let Some(at) = files.windows(SEPARATOR.len()).position(|window| window == SEPARATOR)
    {
        split.push(&files[..=at]);
        files = &files[at + SEPARATOR.len()..];
    }
    split.push(files);
    split
}
