//! Entry points for the fuzz targets, into private code.

use std::io::Cursor;

use super::formats::LineFormat;
use super::input::{OpenedLog, ProbedLog, probe_opened};
use super::parse::{FieldChoice, parse_block};
use super::{LogError, LogFormat, LogOptions, LogSource, LogSummary, read_probed};
use crate::LogRecord;

/// Parses lines of a format, and checks that the result does not depend on the lines around.
///
/// # Panics
///
/// Panics if a line is parsed differently on its own, or a text of a record is not within its block.
pub fn parse_lines(format: LogFormat, block: &[u8]) {
    let Ok(format) = LineFormat::of(format, block) else { return };
    let together = parsed(&format, block);
    let mut apart: Vec<_> = block.split_inclusive(|byte| *byte == b'\n').map(|line| parsed(&format, line)).collect();
    let mut joined = apart.iter_mut().flat_map(|parsed| std::mem::take(&mut parsed.records)).collect::<Vec<_>>();
    joined.sort_by_key(|(time_ns, _)| *time_ns);
    assert_eq!(together.records, joined);
    assert_eq!(together.lines, apart.iter().map(|parsed| parsed.lines).sum::<u64>());
    assert_eq!(together.unreadable, apart.iter().map(|parsed| parsed.unreadable).sum::<u64>());
    assert_eq!(together.lines, together.unreadable + together.records.len() as u64);
}

struct Parsed {
    /// The time and everything else.
    records: Vec<(u64, String)>,
    lines: u64,
    unreadable: u64,
}

fn parsed(format: &LineFormat, block: &[u8]) -> Parsed {
    let chunk = parse_block(block.to_vec(), format, &FieldChoice::default(), super::chunk::LogChunk::default());
    assert!(chunk.spans_are_valid());
    assert_eq!(chunk.text.len(), block.len());
    let record = |number| {
        let fields: Vec<_> = chunk.fields_of(number).collect();
        let record: LogRecord<'_> = chunk.record(number, &fields);
        (record.time_ns, format!("{record:?}"))
    };
    let records = (0..chunk.records.len()).map(record).collect();
    Parsed { records, lines: chunk.counts.lines, unreadable: chunk.counts.unreadable }
}

/// Reads logs from memory, and returns each record's time and debug text.
///
/// # Errors
///
/// As for [`read_logs`](super::read_logs).
pub fn read_bytes(logs: &[&[u8]], options: &LogOptions) -> Result<(Vec<(u64, String)>, LogSummary), LogError> {
    let probe = |(number, bytes): (usize, &&[u8])| {
        let source = LogSource::File(number.to_string().into());
        let log = OpenedLog::new(Cursor::new(bytes.to_vec()), source.to_string())?;
        probe_opened(&source, log, options.format, options.block_bytes)
    };
    let logs = logs.iter().enumerate().map(probe).collect::<Result<Vec<ProbedLog>, LogError>>()?;
    let mut records = Vec::new();
    let summary = read_probed(logs, options, &(), &mut |batch| {
        records.extend(batch.iter().map(|record| (record.time_ns, format!("{record:?}"))));
    })?;
    Ok((records, summary))
}
