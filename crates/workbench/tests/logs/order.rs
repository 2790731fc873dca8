//! Records of all logs are delivered in time order.

use std::cell::Cell;
use std::time::Duration;

use tollgate_workbench::log::{LogOptions, LogSource, read_logs};

use crate::reading::{CountedProgress, DAY_NS, LogFiles, line, read, second_and_target, with_tolerance};

fn log(seconds: &[u64], name: &str) -> String {
    seconds.iter().map(|second| line(*second, name)).collect()
}

fn seconds(contents: &[String], options: &LogOptions) -> Vec<(u64, String)> {
    LogFiles::new(contents).read(options).unwrap().0.iter().map(second_and_target).collect()
}

#[test]
fn logs_are_merged_by_time_and_then_by_argument() {
    let logs = [log(&[1, 3, 5], "/a"), log(&[2, 3, 4], "/b")];
    let merged = [(1, "/a"), (2, "/b"), (3, "/a"), (3, "/b"), (4, "/b"), (5, "/a")];
    let merged = merged.map(|(second, name)| (second, name.to_owned()));
    assert_eq!(seconds(&logs, &LogOptions::default()), merged);
}

#[test]
fn rotated_logs_may_be_given_in_any_order() {
    let day: Vec<u64> = (0..40_000).map(|number| number / 10).collect();
    let logs: Vec<String> = day.chunks(10_000).rev().map(|part| log(part, "/")).collect();
    let (records, summary) = read(&logs);
    assert!(records.is_sorted_by_key(|record| record.time_ns));
    assert_eq!((records.len(), summary.out_of_order), (40_000, 0));
}

#[test]
fn lines_within_the_tolerance_are_sorted() {
    let order = seconds(&[log(&[20, 12, 15, 30, 21], "/")], &with_tolerance(10));
    assert_eq!(order.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [12, 15, 20, 21, 30]);
}

#[test]
fn later_lines_are_moved_and_counted() {
    let files = LogFiles::new([log(&[20, 40, 10, 41], "/")]);
    let (records, summary) = files.read(&with_tolerance(10)).unwrap();
    let seconds: Vec<u64> = records.iter().map(|record| second_and_target(record).0).collect();
    assert_eq!((seconds, summary.out_of_order), (vec![20, 30, 40, 41], 1));
    let [jump] = summary.clock_jumps.as_slice() else { panic!("{:?}", summary.clock_jumps) };
    let ns = |second: u64| DAY_NS + second * 1_000_000_000;
    assert_eq!((jump.line, jump.from_ns, jump.to_ns), (3, ns(40), ns(10)));
    assert!(jump.file.ends_with("0.log"));
}

#[test]
fn a_single_line_from_the_future_does_not_hold_the_log() {
    let wrong = line(12, "/wrong").replace("2026", "2062");
    let (records, summary) = read([log(&[10, 11], "/") + &wrong + &log(&[12, 13], "/")]);
    let seconds: Vec<u64> = records.iter().map(|record| second_and_target(record).0).collect();
    assert_eq!((seconds, summary.out_of_order), (vec![10, 11, 11, 12, 13], 1));
    assert_eq!(summary.last_ns, DAY_NS + 13_000_000_000);
}

#[test]
fn a_pause_of_days_is_not_a_jump() {
    let later = log(&[5], "/").replace("16/Nov", "20/Nov");
    let (records, summary) = read([log(&[1, 2], "/") + &later]);
    assert_eq!(
        (records.len(), summary.out_of_order, summary.last_ns - summary.first_ns),
        (3, 0, (4 * 86_400 + 4) * 1_000_000_000)
    );
}

#[test]
fn the_first_time_may_be_that_of_1970() {
    let (_, summary) = read(["time,ip\n0,192.0.2.1\n40,192.0.2.1\n"]);
    assert_eq!((summary.first_ns, summary.last_ns), (0, 40_000_000_000));
}

#[test]
fn without_tolerance_the_order_of_lines_is_kept() {
    let options = LogOptions { out_of_order: Duration::ZERO, ..LogOptions::default() };
    let files = LogFiles::new([log(&[5, 4, 6], "/")]);
    let (records, summary) = files.read(&options).unwrap();
    let seconds: Vec<u64> = records.iter().map(|record| second_and_target(record).0).collect();
    assert_eq!((seconds, summary.out_of_order), (vec![5, 5, 6], 1));
}

#[test]
fn the_tolerance_is_reduced_where_records_do_not_fit_into_the_memory() {
    // All lines are within the tolerance, and none may be delivered before the end.
    let text: String = (0..60_000).map(|number| line(number / 1_000, "/")).collect();
    let files = LogFiles::new([text + &line(20, "/late")]);
    let options = LogOptions { waiting_bytes_max: 1 << 20, ..with_tolerance(3_600) };
    let (records, summary) = files.read(&options).unwrap();
    assert!(records.is_sorted_by_key(|record| record.time_ns));
    assert_eq!((records.len(), summary.out_of_order), (60_001, 1));
    let (_, summary) = files.read(&with_tolerance(3_600)).unwrap();
    assert_eq!(summary.out_of_order, 0);
}

#[test]
fn a_batch_that_panics_ends_the_reading() {
    let files = LogFiles::new([log(&[1; 10_000], "/")]);
    let sources = [LogSource::File(files.path("0.log"))];
    let result =
        std::panic::catch_unwind(|| read_logs(&sources, &LogOptions::default(), &(), &mut |_| panic!("a test")));
    assert!(result.is_err());
}

/// Returns the most lines that were read and not delivered yet.
fn lines_waiting_max(contents: &[String], options: &LogOptions) -> u64 {
    let files = LogFiles::new(contents);
    let sources: Vec<LogSource> =
        (0..contents.len()).map(|number| LogSource::File(files.path(&format!("{number}.log")))).collect();
    let (progress, waiting_max, mut delivered) = (CountedProgress::default(), Cell::new(0), 0);
    read_logs(&sources, options, &progress, &mut |batch| {
        delivered += batch.len() as u64;
        waiting_max.set(waiting_max.get().max(progress.lines() - delivered));
    })
    .unwrap();
    assert_eq!(progress.lines(), delivered);
    waiting_max.get()
}

#[test]
fn lines_do_not_wait_after_a_clock_was_set_back() {
    let text = line(7_200, "/") + &log(&[3_600; 50_000], "/") + &line(7_300, "/");
    let waiting_max = lines_waiting_max(&[text], &LogOptions::default());
    assert!(waiting_max < 10_000, "{waiting_max}");
}

#[test]
fn the_memory_for_waiting_lines_is_bounded() {
    // All lines have one time, so none is before another.
    let logs = [log(&[0; 50_000], "/"), log(&[0; 50_000], "/")];
    let options = LogOptions { waiting_bytes_max: 1 << 20, ..LogOptions::default() };
    let waiting_max = lines_waiting_max(&logs, &options);
    assert!(waiting_max < 20_000, "{waiting_max}");
    assert_eq!(lines_waiting_max(&logs, &LogOptions::default()), 100_000 - 1_024, "within the memory they wait");
}

/// Counts the open files of this process.
#[cfg(target_os = "linux")]
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[cfg(target_os = "linux")]
#[test]
fn rotated_logs_are_opened_one_after_the_other() {
    let logs: Vec<String> = (0..300).map(|number| log(&[number * 60, number * 60 + 59], "/")).collect();
    let files = LogFiles::new(&logs);
    let sources: Vec<LogSource> =
        (0..300).map(|number| LogSource::File(files.path(&format!("{number}.log")))).collect();
    let (mut records, mut open_files_max) = (0, 0);
    read_logs(&sources, &LogOptions::default(), &(), &mut |batch| {
        records += batch.len();
        open_files_max = open_files_max.max(open_files());
    })
    .unwrap();
    assert_eq!(records, 600);
    // Other tests in this process have open files, too, but far fewer than there are logs.
    assert!(open_files_max < 200, "{open_files_max}");
}

#[test]
fn many_logs_of_the_same_time_are_merged() {
    let seconds: Vec<u64> = (0..200).collect();
    let logs: Vec<String> = (0..100).map(|number| log(&seconds, &format!("/{number}"))).collect();
    let (records, summary) = read(&logs);
    let expected = seconds.iter().flat_map(|second| (0..100).map(|number| (*second, format!("/{number}"))));
    assert!(records.iter().map(second_and_target).eq(expected));
    assert_eq!((summary.lines, summary.out_of_order), (20_000, 0));
}
