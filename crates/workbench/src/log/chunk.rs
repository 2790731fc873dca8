//! A block of lines after parsing: its text, and records that refer to it by position. So chunks can move between
//! threads, and records borrow from a chunk only while they are delivered.

use std::net::IpAddr;
use std::sync::Arc;

use super::summary::UnreadableLine;
use crate::LogRecord;

/// A part of a chunk's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkSpan {
    start: u32,
    end: u32,
}

impl ChunkSpan {
    /// No text, as opposed to an empty one.
    pub(super) const NONE: ChunkSpan = ChunkSpan { start: u32::MAX, end: 0 };

    /// Blocks are far smaller than 4 GiB.
    #[expect(clippy::cast_possible_truncation, reason = "positions within a block")]
    #[inline]
    pub(super) const fn new(start: usize, end: usize) -> ChunkSpan {
        ChunkSpan { start: start as u32, end: end as u32 }
    }

    #[inline]
    fn text(self, text: &str) -> Option<&str> {
        text.get(self.start as usize..self.end as usize)
    }
}

/// A request of a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParsedRecord {
    pub(super) time_ns: u64,
    pub(super) client_ip: Option<IpAddr>,
    /// 0 if it is unknown.
    pub(super) status: u16,
    pub(super) user: ChunkSpan,
    pub(super) method: ChunkSpan,
    pub(super) host: ChunkSpan,
    pub(super) target: ChunkSpan,
    /// Its fields among those of the chunk.
    pub(super) first_field: u32,
    pub(super) fields: u32,
    /// The line in the chunk, from 0.
    pub(super) line: u32,
}

impl Default for ParsedRecord {
    fn default() -> ParsedRecord {
        ParsedRecord {
            time_ns: 0,
            client_ip: None,
            status: 0,
            user: ChunkSpan::NONE,
            method: ChunkSpan::NONE,
            host: ChunkSpan::NONE,
            target: ChunkSpan::NONE,
            first_field: 0,
            fields: 0,
            line: 0,
        }
    }
}

/// The name of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldLabel {
    /// A name that the format fixes.
    Fixed(&'static str),
    /// A name in the text.
    Text(ChunkSpan),
    /// The number of a column.
    Column(u32),
}

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkField {
    pub(super) label: FieldLabel,
    pub(super) value: ChunkSpan,
}

/// The times of a chunk, in the order of its lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkTimes {
    pub(super) first_ns: u64,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
    /// How far a record is behind the latest one before it, at most.
    pub(super) behind_ns_max: u64,
    /// How far a record is ahead of the latest one before it, at most.
    pub(super) ahead_ns_max: u64,
    /// Whether all times are whole seconds.
    pub(super) whole_seconds: bool,
}

/// A block of lines after parsing.
#[derive(Debug, Default)]
pub(crate) struct LogChunk {
    pub(super) text: String,
    /// In the order of their times.
    pub(super) records: Vec<ParsedRecord>,
    pub(super) fields: Vec<ChunkField>,
    pub(super) columns: Arc<[String]>,
    pub(super) times: ChunkTimes,
    pub(super) counts: ChunkCounts,
    /// The first unreadable lines, numbered from 0.
    pub(super) examples: Vec<UnreadableLine>,
    /// Whether the log ends with this chunk.
    pub(super) is_last: bool,
}

/// The sizes of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkCounts {
    /// All lines, as an editor numbers them.
    pub(super) line_ends: u64,
    /// The lines that should be records.
    pub(super) lines: u64,
    pub(super) unreadable: u64,
    /// The bytes of the block, decompressed and as stored.
    pub(super) text_bytes: u64,
    pub(super) stored_bytes: u64,
}

impl LogChunk {
    /// Returns the memory of the chunk.
    pub(super) fn bytes(&self) -> usize {
        self.text.capacity()
            + self.records.capacity() * size_of::<ParsedRecord>()
            + self.fields.capacity() * size_of::<ChunkField>()
    }

    /// Returns the fields of a record.
    pub(super) fn fields_of(&self, record: usize) -> impl Iterator<Item = (&str, &str)> {
        let ParsedRecord { first_field, fields, .. } = self.records[record];
        let fields = &self.fields[first_field as usize..(first_field + fields) as usize];
        fields.iter().map(|field| (self.name(field.label), field.value.text(&self.text).unwrap_or_default()))
    }

    fn name(&self, label: FieldLabel) -> &str {
        match label {
            FieldLabel::Fixed(name) => name,
            FieldLabel::Text(span) => span.text(&self.text).unwrap_or_default(),
            FieldLabel::Column(number) => self.columns.get(number as usize).map_or("", String::as_str),
        }
    }

    /// Whether all spans are within the text, between its characters.
    #[cfg(fuzzing)]
    pub(super) fn spans_are_valid(&self) -> bool {
        let is_valid = |span: ChunkSpan| span == ChunkSpan::NONE || span.text(&self.text).is_some();
        let labels = self.fields.iter().map(|field| field.label);
        let names = labels.filter_map(|label| if let FieldLabel::Text(span) = label { Some(span) } else { None });
        let records = self.records.iter().flat_map(|record| [record.user, record.method, record.host, record.target]);
        records.chain(names).chain(self.fields.iter().map(|field| field.value)).all(is_valid)
    }

    /// Returns a record with these fields.
    #[inline]
    pub(super) fn record<'a>(&'a self, record: usize, fields: &'a [(&'a str, &'a str)]) -> LogRecord<'a> {
        let parsed = &self.records[record];
        LogRecord {
            time_ns: parsed.time_ns,
            client_ip: parsed.client_ip,
            user: parsed.user.text(&self.text),
            method: parsed.method.text(&self.text).unwrap_or_default(),
            host: parsed.host.text(&self.text),
            target: parsed.target.text(&self.text).unwrap_or_default(),
            status: (parsed.status != 0).then_some(parsed.status),
            fields,
        }
    }
}
