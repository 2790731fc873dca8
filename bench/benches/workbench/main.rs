//! The speed of reading logs, compared with counting the lines of the same file, and of whole analyses, compared with
//! parsing alone and with GoAccess.
//!
//!     scripts/bench --only workbench [--quick]
//!
//! Tables go to stdout, progress to stderr.

#![allow(clippy::float_arithmetic, reason = "results are not quotas")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]
#![allow(clippy::unwrap_used, reason = "a benchmark that fails ends")]

mod analyses;
mod goaccess;
mod logs;

use std::fs::File;
use std::io::Read;
use std::time::Instant;

use tollgate_testbed::TemporaryDirectory;
use tollgate_workbench::LogRecord;
use tollgate_workbench::log::{LogOptions, LogSource, read_logs};

use self::logs::{CLIENTS, GeneratedLog, LogKind};

/// The goal for combined lines on two cores, in millions a second.
const GOAL_MLINES: f64 = 3.0;

/// More clients than any cache holds.
const MANY_CLIENTS: u64 = 1_000_000;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (lines, rounds) = if quick { (200_000, 3) } else { (1_000_000, 5) };
    let directory = TemporaryDirectory::new("bench-logs").unwrap();
    println!("## Reading logs, million lines a second\n");
    println!("Medians of {rounds} rounds, {lines} lines in memory; the goal for combined lines is {GOAL_MLINES}.\n");
    println!("| log | bytes a line | one thread | all cores | without fields | line count |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for kind in LogKind::ALL {
        eprintln!("{}", kind.name());
        let log = GeneratedLog::write(directory.path(), kind, lines, CLIENTS);
        let without_fields = || Some(Vec::new());
        let figures = [
            median(rounds, || mlines(&log, 1, None)),
            median(rounds, || mlines(&log, 0, None)),
            median(rounds, || mlines(&log, 0, without_fields())),
        ];
        let figures = figures.map(|figure| format!("{figure:.2}")).join(" | ");
        let counted = match kind {
            LogKind::CombinedGzip | LogKind::CombinedZstd => String::new(),
            // The header of CSV is a line, too.
            kind => format!("{:.1}", median(rounds, || counted_mlines(&log, u64::from(kind == LogKind::Csv)))),
        };
        println!("| {} | {} | {figures} | {counted} |", kind.name(), log.bytes / log.lines);
    }
    for clients in [CLIENTS, MANY_CLIENTS] {
        eprintln!("analyses of {clients} clients");
        // Every client has some requests.
        let log = GeneratedLog::write(directory.path(), LogKind::Combined, lines.max(4 * clients), clients);
        analyses::print(&log, clients, rounds);
    }
}

/// Reads a log, checks that every record arrived, and returns the speed.
fn mlines(log: &GeneratedLog, threads: usize, fields: Option<Vec<String>>) -> f64 {
    let options = LogOptions { threads, fields, ..LogOptions::default() };
    let mut digest = 0_u64;
    let start = Instant::now();
    let summary = read_logs(&[LogSource::File(log.path.clone())], &options, &(), &mut |batch| {
        digest = batch.iter().map(logs::digest).fold(digest, u64::wrapping_add);
    })
    .unwrap();
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!((summary.lines, summary.unreadable, digest), (log.lines, 0, log.digest), "not all records were read");
    summary.lines as f64 / seconds / 1e6
}

/// Counts the lines of a file, and returns the speed: the floor.
fn counted_mlines(log: &GeneratedLog, header_lines: u64) -> f64 {
    let mut block = vec![0; 256 << 10];
    let mut file = File::open(&log.path).unwrap();
    let mut counted = 0;
    let start = Instant::now();
    loop {
        let read = file.read(&mut block).unwrap();
        if read == 0 {
            break;
        }
        counted += memchr::memchr_iter(b'\n', &block[..read]).count() as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(counted, log.lines + header_lines);
    counted as f64 / seconds / 1e6
}

fn median(rounds: usize, run: impl Fn() -> f64) -> f64 {
    median_of((0..rounds).map(|_| run()).collect())
}

fn median_of(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
