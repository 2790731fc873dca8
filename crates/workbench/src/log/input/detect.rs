//! Detects the format of a log from its first lines.

use std::cmp::Reverse;

use crate::log::LogFormat;
use crate::log::formats::LineFormat;
use crate::log::parse::{FieldChoice, ParsedLines};
use crate::log::summary::UnreadableLine;
use crate::log::text::escaped;

/// What a format makes of the first lines.
pub(super) struct Attempt {
    pub(super) format: LineFormat,
    pub(super) requests: u64,
    pub(super) lines: u64,
    pub(super) unreadable: u64,
    /// The time of the first request.
    pub(super) first_ns: Option<u64>,
    pub(super) example: Option<UnreadableLine>,
}

impl Attempt {
    /// Parses lines in a format.
    pub(super) fn new(format: LineFormat, first_lines: &[u8]) -> Attempt {
        // Parsing unescapes in place, so messages show the original.
        let mut lines_copy = first_lines.to_vec();
        let choice = FieldChoice::default();
        let mut lines = ParsedLines::new(&choice);
        format.parse_lines(&mut lines_copy, &mut lines, &choice);
        Attempt {
            format,
            requests: lines.records.len() as u64,
            lines: lines.counts.lines,
            unreadable: lines.counts.unreadable,
            first_ns: lines.records.first().map(|record| record.time_ns),
            example: lines
                .examples
                .into_iter()
                .next()
                .map(|example| UnreadableLine { text: escaped(line(first_lines, example.line)), ..example }),
        }
    }

    /// Whether at most half of the lines are unreadable.
    pub(super) fn is_plausible(&self) -> bool {
        self.unreadable * 2 <= self.lines
    }
}

/// Returns a line by its number from 0.
fn line(lines: &[u8], number: u64) -> &[u8] {
    let mut lines = lines.split(|byte| *byte == b'\n');
    usize::try_from(number).ok().and_then(|number| lines.nth(number)).unwrap_or_default()
}

/// Returns the format that reads most of the first lines, if it reads at least half. Of several, the last one counts:
/// an event of the service has the same members as a line of nginx may have.
pub(super) fn detect(first_lines: &[u8]) -> Option<Attempt> {
    let formats = LogFormat::ALL.into_iter().filter_map(|format| LineFormat::of(format, first_lines).ok());
    let attempts = formats.map(|format| Attempt::new(format, first_lines)).filter(|attempt| attempt.requests > 0);
    attempts.max_by_key(|attempt| (attempt.requests, Reverse(attempt.unreadable))).filter(Attempt::is_plausible)
}
