//! The log of `tollgate serve`, as JSON and as text. A violation is a request; all other lines are messages.

use std::ops::Range;

use memchr::memchr;

use super::combined::quoted_end;
use super::json::{EventsDialect, JsonParser};
use crate::log::chunk::{ChunkSpan, FieldLabel, ParsedRecord};
use crate::log::parse::{FieldCollector, LineContent, LineParser};
use crate::log::text::{TimeParser, parse_address, unescape_json};

/// Parses the log of the service.
pub(super) struct EventsParser {
    json: JsonParser<EventsDialect>,
    times: TimeParser,
}

impl Default for EventsParser {
    fn default() -> EventsParser {
        EventsParser { json: JsonParser::new(EventsDialect), times: TimeParser::default() }
    }
}

impl LineParser for EventsParser {
    fn parse(
        &mut self,
        line: &mut [u8],
        start: usize,
        record: &mut ParsedRecord,
        fields: &mut FieldCollector<'_>,
    ) -> Result<LineContent, &'static str> {
        const VIOLATION: &[u8] = b"tollgate: violation ";
        if line.starts_with(b"{") {
            return self.json.parse(line, start, record, fields);
        }
        if !line.starts_with(b"tollgate: ") {
            return Err("expected an event of tollgate");
        }
        if !line.starts_with(VIOLATION) {
            return Ok(LineContent::Other);
        }
        let mut has_time = false;
        let mut at = VIOLATION.len();
        while at < line.len() {
            let (name, value, next) = next_field(line, at).ok_or("expected fields such as rule=login")?;
            let span = ChunkSpan::new(start + value.start, start + value.end);
            let name = known(&line[name]);
            let text = &line[value];
            match name {
                "time" => {
                    record.time_ns = self.times.rfc3339(text).ok_or("the time is not in RFC 3339")?;
                    has_time = true;
                }
                "method" => record.method = span,
                "route" => record.target = span,
                "client" => record.client_ip = parse_address(text),
                _ => {}
            }
            let is_field =
                matches!(name, "rule" | "action" | "front_end") || name == "client" && record.client_ip.is_none();
            if is_field && fields.choice.contains(name.as_bytes()) {
                fields.push(FieldLabel::Fixed(name), span);
            }
            at = next;
        }
        if has_time { Ok(LineContent::Request) } else { Err("the event has no time") }
    }
}

/// Reads `name=value` or `name="value"`, and returns where the next one begins.
fn next_field(line: &mut [u8], at: usize) -> Option<(Range<usize>, Range<usize>, usize)> {
    let equals = at + memchr(b'=', &line[at..])?;
    let start = equals + 1;
    if line.get(start) == Some(&b'"') {
        let end = quoted_end(line, start + 1)?;
        let length = unescape_json(&mut line[start + 1..end]);
        return Some((at..equals, start + 1..start + 1 + length, end + 2));
    }
    let end = memchr(b' ', &line[start..]).map_or(line.len(), |length| start + length);
    Some((at..equals, start..end, end + 1))
}

/// Returns the name of a field that is read.
fn known(name: &[u8]) -> &'static str {
    let names = ["time", "method", "route", "client", "rule", "action", "front_end"];
    names.into_iter().find(|known| known.as_bytes() == name).unwrap_or_default()
}
