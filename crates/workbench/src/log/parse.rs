//! Parses a block of lines.

use std::sync::Arc;

use memchr::memchr;

use super::chunk::{ChunkCounts, ChunkField, ChunkSpan, ChunkTimes, FieldLabel, LogChunk, ParsedRecord};
use super::formats::LineFormat;
use super::summary::{EXAMPLES_MAX, UnreadableLine};
use super::text::escaped;

/// The longest line. Longer ones are unreadable, and never held in memory.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

/// Stands for a byte that is not UTF-8: SUBSTITUTE. It is as long as the byte.
const SUBSTITUTE: u8 = 0x1a;

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineContent {
    /// A request.
    Request,
    /// Something else: a header line, a message.
    Other,
}

/// Parses the lines of one format.
pub(super) trait LineParser {
    /// Parses a line. `start` is its position in the block, on which spans are based.
    ///
    /// # Errors
    ///
    /// Why the line is unreadable.
    fn parse(
        &mut self,
        line: &mut [u8],
        start: usize,
        record: &mut ParsedRecord,
        fields: &mut FieldCollector<'_>,
    ) -> Result<LineContent, &'static str>;
}

/// Which fields are delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldChoice(pub(super) Option<Arc<[String]>>);

impl FieldChoice {
    /// Returns whether a field of this name is delivered.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|known| known.as_bytes() == name))
    }
}

/// Collects the fields of a chunk.
pub(super) struct FieldCollector<'c> {
    pub(super) choice: &'c FieldChoice,
    fields: Vec<ChunkField>,
}

impl FieldCollector<'_> {
    /// The most fields of a record.
    const RECORD_MAX: usize = 64;

    pub(super) fn push(&mut self, label: FieldLabel, value: ChunkSpan) {
        self.fields.push(ChunkField { label, value });
    }
}

/// Parses a block of whole lines. `recycled` is a chunk that is no longer needed, for its memory.
pub(super) fn parse_block(
    mut block: Vec<u8>,
    format: &LineFormat,
    choice: &FieldChoice,
    recycled: LogChunk,
) -> LogChunk {
    let mut records = recycled.records;
    let mut fields = recycled.fields;
    records.clear();
    fields.clear();
    let mut lines = ParsedLines {
        records,
        counts: ChunkCounts::default(),
        examples: Vec::new(),
        fields: FieldCollector { choice, fields },
    };
    format.parse_lines(&mut block, &mut lines, choice);
    let ParsedLines { mut records, counts, examples, fields } = lines;
    let times = times(&records);
    if times.behind_ns_max > 0 {
        records.sort_by_key(|record| record.time_ns);
    }
    LogChunk {
        text: into_text(block),
        records,
        fields: fields.fields,
        columns: format.columns(),
        times,
        counts,
        examples,
        is_last: false,
    }
}

/// What the lines of a block become.
pub(super) struct ParsedLines<'c> {
    pub(super) records: Vec<ParsedRecord>,
    pub(super) counts: ChunkCounts,
    pub(super) examples: Vec<UnreadableLine>,
    fields: FieldCollector<'c>,
}

impl<'c> ParsedLines<'c> {
    pub(super) fn new(choice: &'c FieldChoice) -> ParsedLines<'c> {
        let fields = FieldCollector { choice, fields: Vec::new() };
        ParsedLines { records: Vec::new(), counts: ChunkCounts::default(), examples: Vec::new(), fields }
    }

    /// Parses the lines of a block.
    #[inline]
    pub(super) fn parse(&mut self, block: &mut [u8], parser: &mut impl LineParser) {
        let mut start = 0;
        while start < block.len() {
            let length = memchr(b'\n', &block[start..]);
            let end = length.map_or(block.len(), |length| start + length);
            self.line(&mut block[start..end], start, parser);
            start = end + 1;
            self.counts.line_ends += 1;
        }
    }

    #[inline]
    fn line(&mut self, line: &mut [u8], start: usize, parser: &mut impl LineParser) {
        let line = match line {
            [line @ .., b'\r'] => line,
            _ => line,
        };
        if line.trim_ascii_start().is_empty() {
            return;
        }
        if line.len() > LINE_BYTES_MAX {
            return self.unreadable(line, "the line is longer than 64 KiB");
        }
        let first_field = self.fields.fields.len();
        let mut record = ParsedRecord::default();
        match parser.parse(line, start, &mut record, &mut self.fields) {
            Ok(LineContent::Request) => self.push(record, first_field),
            Ok(LineContent::Other) => self.fields.fields.truncate(first_field),
            Err(reason) => {
                self.fields.fields.truncate(first_field);
                self.unreadable(line, reason);
            }
        }
    }

    /// Positions within a block, which is far smaller than 4 GiB.
    #[expect(clippy::cast_possible_truncation, reason = "positions within a block")]
    #[inline]
    fn push(&mut self, record: ParsedRecord, first_field: usize) {
        self.fields.fields.truncate(first_field + FieldCollector::RECORD_MAX);
        self.counts.lines += 1;
        self.records.push(ParsedRecord {
            first_field: first_field as u32,
            fields: (self.fields.fields.len() - first_field) as u32,
            line: self.counts.line_ends as u32,
            // The end of time is not a time.
            time_ns: record.time_ns.min(u64::MAX - 1),
            ..record
        });
    }

    #[cold]
    fn unreadable(&mut self, line: &[u8], reason: &'static str) {
        self.counts.lines += 1;
        self.counts.unreadable += 1;
        if self.examples.len() < EXAMPLES_MAX {
            let text = escaped(line);
            self.examples.push(UnreadableLine { file: String::new(), line: self.counts.line_ends, reason, text });
        }
    }
}

pub(super) fn times(records: &[ParsedRecord]) -> ChunkTimes {
    let Some(first) = records.first() else { return ChunkTimes::default() };
    let first_ns = first.time_ns;
    let mut times =
        ChunkTimes { first_ns, min_ns: first_ns, max_ns: first_ns, whole_seconds: true, ..ChunkTimes::default() };
    for ParsedRecord { time_ns, .. } in records {
        if *time_ns >= times.max_ns {
            times.ahead_ns_max = times.ahead_ns_max.max(time_ns - times.max_ns);
            times.max_ns = *time_ns;
        } else {
            times.behind_ns_max = times.behind_ns_max.max(times.max_ns - time_ns);
            times.min_ns = times.min_ns.min(*time_ns);
        }
        times.whole_seconds &= time_ns.is_multiple_of(1_000_000_000);
    }
    times
}

/// Makes a text of a block, in which each byte that is not UTF-8 is replaced. Spans stay valid.
fn into_text(block: Vec<u8>) -> String {
    let mut block = match String::from_utf8(block) {
        Ok(text) => return text,
        Err(error) => error.into_bytes(),
    };
    let mut at = 0;
    while let Err(error) = std::str::from_utf8(&block[at..]) {
        let start = at + error.valid_up_to();
        let end = error.error_len().map_or(block.len(), |length| start + length);
        block[start..end].fill(SUBSTITUTE);
        at = end;
    }
    String::from_utf8(block).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::into_text;

    #[test]
    fn bytes_that_are_not_utf_8_are_replaced_by_as_many() {
        assert_eq!(into_text(b"caf\xc3\xa9 \xe9\xff! \xe2\x82".to_vec()), "café \u{1a}\u{1a}! \u{1a}\u{1a}");
        assert_eq!(into_text("😀".into()), "😀");
    }
}
