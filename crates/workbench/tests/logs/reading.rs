//! Writes logs to files, and reads them.

use std::cell::Cell;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_testbed::TemporaryDirectory;
use tollgate_workbench::LogRecord;
use tollgate_workbench::log::{LogError, LogFormat, LogOptions, LogSource, LogSummary, Progress, read_logs};

/// A record that owns its texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnedRecord {
    pub(crate) time_ns: u64,
    pub(crate) client_ip: Option<IpAddr>,
    pub(crate) user: Option<String>,
    pub(crate) method: String,
    pub(crate) host: Option<String>,
    pub(crate) target: String,
    pub(crate) status: Option<u16>,
    pub(crate) fields: Vec<(String, String)>,
}

impl From<&LogRecord<'_>> for OwnedRecord {
    fn from(record: &LogRecord<'_>) -> OwnedRecord {
        let fields = record.fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        OwnedRecord {
            time_ns: record.time_ns,
            client_ip: record.client_ip,
            user: record.user.map(str::to_owned),
            method: record.method.to_owned(),
            host: record.host.map(str::to_owned),
            target: record.target.to_owned(),
            status: record.status,
            fields: fields.collect(),
        }
    }
}

/// Logs in a temporary directory.
pub(crate) struct LogFiles {
    directory: TemporaryDirectory,
    sources: Vec<LogSource>,
}

impl LogFiles {
    pub(crate) fn new<C: AsRef<[u8]>>(contents: impl IntoIterator<Item = C>) -> LogFiles {
        let mut files = LogFiles { directory: TemporaryDirectory::new("logs").unwrap(), sources: Vec::new() };
        for content in contents {
            let path = files.directory.path().join(format!("{}.log", files.sources.len()));
            std::fs::write(&path, content).unwrap();
            files.sources.push(LogSource::File(path));
        }
        files
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Reads all files.
    pub(crate) fn read(&self, options: &LogOptions) -> Result<(Vec<OwnedRecord>, LogSummary), LogError> {
        let mut records = Vec::new();
        let summary = read_logs(&self.sources, options, &(), &mut |batch| {
            records.extend(batch.iter().map(OwnedRecord::from));
        })?;
        Ok((records, summary))
    }
}

/// Reads logs with the default options.
pub(crate) fn read<C: AsRef<[u8]>>(contents: impl IntoIterator<Item = C>) -> (Vec<OwnedRecord>, LogSummary) {
    LogFiles::new(contents).read(&LogOptions::default()).unwrap()
}

/// Reads a log in a format.
pub(crate) fn read_as(format: LogFormat, content: &str) -> (Vec<OwnedRecord>, LogSummary) {
    LogFiles::new([content]).read(&LogOptions { format, ..LogOptions::default() }).unwrap()
}

/// Returns the error of reading a log.
pub(crate) fn error_of(content: impl AsRef<[u8]>) -> LogError {
    LogFiles::new([content]).read(&LogOptions::default()).unwrap_err()
}

/// Returns a line in the Common Log Format at this second.
pub(crate) fn line(second: u64, target: &str) -> String {
    let (hour, minute, second) = (second / 3_600 % 24, second / 60 % 60, second % 60);
    format!("192.0.2.1 - - [16/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000] \"GET {target} HTTP/1.1\" 200 5\n")
}

/// The time of second 0 in [`line`].
pub(crate) const DAY_NS: u64 = 1_794_787_200_000_000_000;

/// Returns the second in [`line`] of a record, and its target.
pub(crate) fn second_and_target(record: &OwnedRecord) -> (u64, String) {
    ((record.time_ns - DAY_NS) / 1_000_000_000, record.target.clone())
}

/// Options with a tolerance in seconds.
pub(crate) fn with_tolerance(seconds: u64) -> LogOptions {
    LogOptions { out_of_order: Duration::from_secs(seconds), ..LogOptions::default() }
}

/// Adds up the progress.
#[derive(Default)]
pub(crate) struct CountedProgress {
    total: Cell<Option<u64>>,
    bytes: Cell<u64>,
    lines: Cell<u64>,
}

impl CountedProgress {
    pub(crate) fn lines(&self) -> u64 {
        self.lines.get()
    }
}

impl Progress for CountedProgress {
    fn total(&self, bytes: Option<u64>) {
        self.total.set(bytes);
    }

    fn advance(&self, bytes: u64, lines: u64) {
        self.bytes.set(self.bytes.get() + bytes);
        self.lines.set(self.lines.get() + lines);
    }
}

#[test]
fn progress_reaches_the_size_of_all_files() {
    let files = LogFiles::new([line(0, "/a").repeat(10_000), line(1, "/b")]);
    let progress = CountedProgress::default();
    read_logs(&files.sources, &LogOptions::default(), &progress, &mut |_| {}).unwrap();
    let size = (line(0, "/a").len() * 10_001) as u64;
    assert_eq!((progress.total.get(), progress.bytes.get(), progress.lines.get()), (Some(size), size, 10_001));
}

#[test]
fn the_summary_describes_all_logs() {
    let other = "{\"time_iso8601\":\"2026-11-16T00:00:02.5Z\",\"remote_addr\":\"192.0.2.9\"}\nbroken\n";
    let (records, summary) = read([line(1, "/a") + &line(3, "/b"), other.to_owned()]);
    assert_eq!(records.len(), 3);
    assert_eq!((summary.lines, summary.unreadable, summary.out_of_order), (4, 1, 0));
    assert_eq!((summary.first_ns, summary.last_ns), (DAY_NS + 1_000_000_000, DAY_NS + 3_000_000_000));
    assert_eq!(summary.bytes, (2 * line(0, "/a").len() + other.len()) as u64);
    assert!(!summary.whole_seconds);
    let formats: Vec<_> = summary.logs.iter().map(|log| (log.format, log.lines, log.unreadable)).collect();
    assert_eq!(formats, [(LogFormat::Combined, 2, 0), (LogFormat::NginxJson, 2, 1)]);
    let [example] = summary.examples.as_slice() else { panic!("{:?}", summary.examples) };
    assert!(example.file.ends_with("1.log"), "{}", example.file);
    assert_eq!((example.line, example.reason, &*example.text), (2, "expected a JSON object", "broken"));
}
